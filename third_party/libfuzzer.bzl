"""Fuzz targets: built by clang with libFuzzer, and by every build as tests of their seeds."""

def psring_fuzzer(name, srcs, deps):
    """Makes <name> (a libFuzzer program) and <name>_test (which runs the seeds).

    Only `--config=fuzz` can build the program, so that //... leaves it out; .ci/fuzz
    finds it by its linkopts.

    Args:
      name: of the program. Its seeds are the files in testdata/<name>/.
      srcs: define LLVMFuzzerTestOneInput.
      deps: what the sources include.
    """
    seeds = native.glob(["testdata/%s/*" % name])
    if not seeds:
        fail("%s has no seeds in testdata/%s" % (name, name))
    native.cc_test(
        name = name + "_test",
        size = "small",
        srcs = srcs,
        args = ["$(location %s)" % seed for seed in seeds],
        data = seeds,
        deps = deps + ["//common:fuzzer_main"],
    )
    native.cc_binary(
        name = name,
        testonly = True,
        srcs = srcs,
        linkopts = ["-fsanitize=fuzzer"],
        tags = ["manual"],
        deps = deps,
    )
