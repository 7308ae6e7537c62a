"""C++ and CUDA that is built where there is a CUDA toolkit, and absent elsewhere."""

load("@cuda//:found.bzl", "CUDA_VERSION", "HAVE_CUDA", "NVCC")

# What kernels are compiled for: machine code for A100 and for H100 and H200, and PTX, which
# the driver compiles for what comes after them.
CUDA_ARCHITECTURES = "sm_80, sm_90, PTX of compute_90"
_CODE = [
    "-gencode=arch=compute_80,code=sm_80",
    "-gencode=arch=compute_90,code=[sm_90,compute_90]",
]

_HOST_COMPILER = "g++-12"

# .bazelrc has these for clang and its sanitizers, whose flags g++ does not know or must not
# have in part of a program.
_ONLY_CLANG = ("-Wthread-safety", "-fsanitize", "-fno-sanitize")

def _cuda_objects_impl(ctx):
    info = cc_common.merge_cc_infos(cc_infos = [dep[CcInfo] for dep in ctx.attr.deps])
    context = info.compilation_context
    host_flags = ["-fPIC"] + [
        flag
        for flag in ctx.fragments.cpp.copts
        if not flag.startswith(_ONLY_CLANG)
    ]
    objects, reports = [], []
    for source in ctx.files.srcs:
        stem = "%s/%s" % (ctx.label.name, source.basename[:-len(".cu")])
        object = ctx.actions.declare_file(stem + ".o")
        report = ctx.actions.declare_file(stem + ".ptxas.txt")
        flags = ctx.actions.args()
        flags.add_all(["-c", source, "-o", object, "-ccbin", _HOST_COMPILER, "-O2"])
        flags.add_all(ctx.fragments.cpp.cxxopts)

        # No contraction, as on processors: replicas must agree bit for bit.
        flags.add_all(["-fmad=false", "-Werror", "all-warnings", "-Xptxas", "-v"] + _CODE)
        flags.add_all(host_flags, before_each = "-Xcompiler")
        flags.add("-I.")
        flags.add_all(context.quote_includes, before_each = "-I")
        flags.add_all(context.includes, before_each = "-I")
        flags.add_all(context.system_includes, before_each = "-isystem")
        flags.add_all(context.defines, format_each = "-D%s")
        if ctx.var["COMPILATION_MODE"] == "opt":
            flags.add("-DNDEBUG")
        ctx.actions.run_shell(
            # What ptxas says of each kernel is a result; what is wrong comes the same way.
            command = ('report=$1; shift 2; "$@" 2> "$report" || ' +
                       '{ cat "$report" >&2; exit 1; }'),
            # The toolkit is no input. By its version, which nothing reads, Bazel knows
            # that it is another one.
            arguments = [report.path, CUDA_VERSION, NVCC, flags],
            inputs = depset(
                ctx.files.srcs + ctx.files.hdrs,
                transitive = [context.headers],
            ),
            outputs = [object, report],
            mnemonic = "CudaCompile",
            progress_message = "Compiling %s" % source.short_path,
            use_default_shell_env = True,
        )
        objects.append(object)
        reports.append(report)
    return [
        DefaultInfo(files = depset(objects)),
        OutputGroupInfo(ptxas = depset(reports)),
    ]

_cuda_objects = rule(
    implementation = _cuda_objects_impl,
    attrs = {
        "deps": attr.label_list(providers = [CcInfo]),
        "hdrs": attr.label_list(allow_files = [".h"]),
        "srcs": attr.label_list(allow_files = [".cu"]),
    },
    fragments = ["cpp"],
)

def cuda_library(name, srcs, hdrs = [], deps = [], testonly = False, visibility = None):
    """A library of kernels; absent where there is no toolkit.

    <name>_ptxas are the files in which ptxas says how many registers each kernel of a source
    takes, and what it spills, for each architecture: <name>_objects/STEM.ptxas.txt.

    Args:
      name: of the library.
      srcs: .cu files.
      hdrs: headers, of the library and of its sources.
      deps: what they include; the CUDA runtime is among them anyway.
      testonly: as everywhere.
      visibility: of the library and of <name>_ptxas.
    """
    if not HAVE_CUDA:
        return
    deps = deps + ["@cuda//:cudart"]
    _cuda_objects(
        name = name + "_objects",
        srcs = srcs,
        hdrs = hdrs,
        deps = deps,
        testonly = testonly,
    )
    native.filegroup(
        name = name + "_ptxas",
        srcs = [name + "_objects"],
        output_group = "ptxas",
        testonly = testonly,
        visibility = visibility,
    )
    native.cc_library(
        name = name,
        srcs = [name + "_objects"],
        hdrs = hdrs,
        linkstatic = True,
        testonly = testonly,
        visibility = visibility,
        deps = deps,
    )

def cuda_cc_binary(name, **attributes):
    """A cc_binary that includes CUDA's headers; absent where there is no toolkit."""
    if HAVE_CUDA:
        native.cc_binary(name = name, **attributes)

def cuda_cc_library(name, **attributes):
    """A cc_library that includes CUDA's headers; absent where there is no toolkit."""
    if HAVE_CUDA:
        native.cc_library(name = name, linkstatic = True, **attributes)

def cuda_cc_test(name, **attributes):
    """A cc_test that includes CUDA's headers; absent where there is no toolkit."""
    if HAVE_CUDA:
        native.cc_test(name = name, linkstatic = True, **attributes)
