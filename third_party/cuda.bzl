"""The CUDA toolkit and NCCL, which GPUs take: psring is built with them where they are."""

_USUAL_HOME = "/usr/local/cuda"
_OLDEST_VERSION = 12  # The first whose nvcc knows C++20 and sm_90.

def _file_in(repository_ctx, folders, name):
    """The first of the folders that has the file; None where none has."""
    for folder in folders:
        if repository_ctx.path(folder + "/" + name).exists:
            return folder
    return None

def _version_of(repository_ctx, nvcc):
    """As in "13.0"; empty where it does not say."""
    result = repository_ctx.execute([nvcc, "--version"])
    release = result.stdout.partition("release ")[2].partition(",")[0]
    return release if result.return_code == 0 and release[:1].isdigit() else ""

def _find(repository_ctx, home):
    """A toolkit: its version, and folders of headers and libraries. `missing` says what
    it lacks, or is empty."""
    headers = home + "/include"
    nccl = _file_in(repository_ctx, [headers, "/usr/include"], "nccl.h")
    libraries = _file_in(repository_ctx, [home + "/lib64", home + "/lib"], "libcudart_static.a")
    wanted = {
        "bin/nvcc": _file_in(repository_ctx, [home], "bin/nvcc"),
        "include/cuda_runtime_api.h": _file_in(repository_ctx, [headers], "cuda_runtime_api.h"),
        "include/cublas_v2.h": _file_in(repository_ctx, [headers], "cublas_v2.h"),
        "lib64/libcudart_static.a": libraries,
    }
    absent = [name for name, folder in wanted.items() if not folder]
    version = "" if absent else _version_of(repository_ctx, home + "/bin/nvcc")
    if len(absent) == len(wanted):
        missing = "there is no CUDA toolkit in %s (looked for %s)" % (home, ", ".join(absent))
    elif absent:
        missing = "the CUDA toolkit in %s has no %s" % (home, ", ".join(absent))
    elif not version:
        missing = "%s/bin/nvcc --version does not say which it is" % home
    elif int(version.partition(".")[0]) < _OLDEST_VERSION:
        missing = "the CUDA toolkit in %s is %s, and it takes %d.0" % (
            home,
            version,
            _OLDEST_VERSION,
        )
    elif not nccl:
        missing = "NCCL's nccl.h is not in %s or /usr/include" % headers
    else:
        missing = ""
    return struct(
        missing = missing,
        version = version,
        headers = headers,
        libraries = libraries,
        nccl = nccl,
    )

def _cuda_impl(repository_ctx):
    # An empty one says that none is wanted.
    given = repository_ctx.os.environ.get("CUDA_HOME")
    home = _USUAL_HOME if given == None else given.rstrip("/")
    if given == "":
        found = struct(missing = "CUDA_HOME was empty")
    else:
        found = _find(repository_ctx, home)
    if found.missing and given:
        fail(("CUDA_HOME is %s: %s. Without CUDA_HOME it is looked for in %s; an empty " +
              "CUDA_HOME builds psring without CUDA") % (given, found.missing, _USUAL_HOME))
    if found.missing:
        repository_ctx.file("BUILD", "")
    else:
        # Below the repository, because they are in no folder that the compiler knows.
        repository_ctx.symlink(found.headers, "include")
        repository_ctx.symlink(found.nccl + "/nccl.h", "nccl/nccl.h")
        repository_ctx.symlink(
            found.libraries + "/libcudart_static.a",
            "libcudart_static.a",
        )
        repository_ctx.file("BUILD", """\
package(default_visibility = ["//visibility:public"])

# Those of the runtime, of cuBLAS and of NCCL. Of the toolkit's many others what nvcc
# itself takes.
cc_library(
    name = "headers",
    hdrs = glob([
        "include/*.h",
        "include/*.hpp",
        "include/cccl/nv/**",
        "include/crt/*",
        "include/nv/**",
    ]) + ["nccl/nccl.h"],
    includes = [
        "include",
        "nccl",
    ],
)

# In the program itself, so that one program runs with and without a driver.
cc_library(
    name = "cudart",
    srcs = ["libcudart_static.a"],
    linkopts = [
        "-ldl",
        "-lpthread",
        "-lrt",
    ],
    deps = [":headers"],
)
""")
    repository_ctx.file("found.bzl", "".join(["%s = %s\n" % (name, repr(value)) for name, value in {
        "CUDA_LIBRARIES": "" if found.missing else found.libraries,
        "CUDA_MISSING": found.missing,
        "CUDA_VERSION": "" if found.missing else found.version,
        "HAVE_CUDA": not found.missing,
        "NVCC": "" if found.missing else home + "/bin/nvcc",
    }.items()]))

# Declares //:headers and //:cudart where there is a toolkit, and in //:found.bzl HAVE_CUDA,
# why not (CUDA_MISSING), its version, the folder of its libraries, and its compiler. Looks
# in $CUDA_HOME, which is an error where it has none, else where NVIDIA installs it. Bazel
# looks again where either environment variable changes; the psring script makes the second
# name what is installed.
cuda = repository_rule(
    implementation = _cuda_impl,
    configure = True,
    environ = [
        "CUDA_HOME",
        "PSRING_CUDA_TOOLKIT",
    ],
    local = True,
)
