#!/usr/bin/python3
"""One rank of PyTorch in `psring bench step`; psring starts it.

Trains as psring's ranks do: the same model, data, batch and optimizer, one thread. With
several ranks under DistributedDataParallel over Gloo.
"""
import os

for library in ("OMP", "OPENBLAS", "MKL", "BLIS"):  # Before they are loaded.
    os.environ[library + "_NUM_THREADS"] = "1"
os.environ["GLOO_SOCKET_IFNAME"] = "lo"


def best_core():
    """What OpenBLAS should take the processor for: it knows none that is newer than
    itself, and takes those for one without vectors, many times slower."""
    with open("/proc/cpuinfo") as cpuinfo:
        flags = next((line.split() for line in cpuinfo if line.startswith("flags")), [])
    if {"avx512f", "avx512cd", "avx512bw", "avx512dq", "avx512vl"} <= set(flags):
        return "SKYLAKEX"
    return "HASWELL" if {"avx2", "fma"} <= set(flags) else None


if "OPENBLAS_CORETYPE" not in os.environ and best_core():
    os.environ["OPENBLAS_CORETYPE"] = best_core()

import argparse
import ctypes
import datetime
import gzip
import json
import sys
import time
import zlib

try:
    import torch
    import torch.distributed as dist
except ImportError as error:
    sys.exit(f"{sys.executable} has no PyTorch ({error}); install python3-torch and "
             "libopenblas0-pthread")

IMAGES, LABELS = "train-images-idx3-ubyte.gz", "train-labels-idx1-ubyte.gz"


def check_version():
    """Prints what multiplies; fails where nobody would train with it."""
    with open("/proc/self/maps") as maps:
        loaded = maps.read()
    blas = [name for name in ("openblas", "mkl_core", "blis") if "lib" + name in loaded]
    if not blas:
        sys.exit("PyTorch multiplies by the reference BLAS, many times slower than others; "
                 "install libopenblas0-pthread")
    if not dist.is_available() or not dist.is_gloo_available():
        sys.exit("this PyTorch is built without Gloo; install python3-torch")
    core = os.environ.get("OPENBLAS_CORETYPE", "its own choice of a core")
    print(f"{torch.__version__}, {blas[0]}" +
          (f" ({core})" if blas[0] == "openblas" else ""))


def read_values(path, header):
    with gzip.open(path) as file:
        return torch.frombuffer(bytearray(file.read()[header:]), dtype=torch.uint8)


def make_model(widths):
    torch.manual_seed(1)
    layers = []
    for inputs, outputs in zip(widths, widths[1:]):
        layers += [torch.nn.Linear(inputs, outputs), torch.nn.ReLU()]
    return torch.nn.Sequential(*layers[:-1])


def train(options):
    widths = [int(width) for width in options.model.split("-")]
    # Floats from the start, unlike psring's.
    features = read_values(f"{options.data}/{IMAGES}", 16).view(-1, widths[0]).float() / 255
    labels = read_values(f"{options.data}/{LABELS}", 8).long()
    model = make_model(widths)
    if options.ranks > 1:
        dist.init_process_group("gloo", init_method=f"file://{options.store}",
                                rank=options.rank, world_size=options.ranks,
                                timeout=datetime.timedelta(seconds=60))
        # The views spare it copying gradients to its buckets.
        model = torch.nn.parallel.DistributedDataParallel(
            model, bucket_cap_mb=options.cap / 2**20, gradient_as_bucket_view=True)
    optimizer = torch.optim.SGD(model.parameters(), lr=options.learning_rate,
                                momentum=options.momentum)
    steps, losses = [], []
    clock = time.perf_counter_ns
    for step in range(options.steps):
        first = (step * options.ranks + options.rank) * options.batch % len(labels)
        batch = slice(first, first + options.batch)
        start = clock()
        optimizer.zero_grad(set_to_none=True)
        loss = torch.nn.functional.cross_entropy(model(features[batch]), labels[batch])
        losses.append(loss.item())
        forward = clock()
        loss.backward()
        backward = clock()
        optimizer.step()
        end = clock()
        steps.append([end - start, forward - start, backward - forward, end - backward])
    digest = 0
    for parameter in model.parameters():
        digest = zlib.crc32(ctypes.string_at(parameter.data_ptr(), 4 * parameter.numel()),
                            digest)
    return {"steps": steps, "losses": losses, "digest": digest}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--version", action="store_true")
    for name in ("--rank", "--ranks", "--batch", "--cap", "--steps"):
        parser.add_argument(name, type=int)
    for name in ("--learning-rate", "--momentum"):
        parser.add_argument(name, type=float)
    for name in ("--model", "--data", "--store", "--result"):
        parser.add_argument(name)
    options = parser.parse_args()
    torch.set_num_threads(1)
    if options.version:
        check_version()
        return
    result = train(options)
    with open(options.result, "w") as file:
        json.dump(result, file)


main()
