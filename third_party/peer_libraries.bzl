"""Libraries that psring is measured against: each is used where it is installed."""

def _folders_of_mpi(repository_ctx, question):
    """What Open MPI's compiler driver answers; nothing where there is none."""
    mpicc = repository_ctx.which("mpicc")
    if not mpicc:
        return []
    result = repository_ctx.execute([mpicc, "--showme:" + question])
    return result.stdout.strip().split(" ") if result.return_code == 0 else []

def _peer_libraries_impl(repository_ctx):
    gloo = repository_ctx.path("/usr/include/gloo/allreduce.h").exists
    headers = _folders_of_mpi(repository_ctx, "incdirs")
    libraries = _folders_of_mpi(repository_ctx, "libdirs")
    open_mpi = bool(headers and libraries)
    if open_mpi:
        # Below the repository, because they are in no folder that the compiler knows.
        repository_ctx.symlink(headers[0], "open_mpi")
    repository_ctx.file("found.bzl", "GLOO = %s\nOPEN_MPI = %s\n" % (gloo, open_mpi))
    repository_ctx.file("BUILD", """\
package(default_visibility = ["//visibility:public"])

cc_library(
    name = "gloo",
    linkopts = ["-lgloo"],
)

cc_library(
    name = "open_mpi",
    hdrs = glob(["open_mpi/**/*.h"]),
    # Without its C++ classes, which are in a library of their own.
    defines = ["OMPI_SKIP_MPICXX"],
    includes = ["open_mpi"],
    linkopts = [%s"-lmpi"],
)
""" % "".join(['"-L%s", ' % folder for folder in libraries]))

# Declares //:gloo and //:open_mpi, and GLOO and OPEN_MPI in //:found.bzl, which say
# whether they are there. Bazel looks again where the environment variable changes, which
# the psring script makes name what is installed.
peer_libraries = repository_rule(
    implementation = _peer_libraries_impl,
    configure = True,
    environ = ["PSRING_PEER_LIBRARIES"],
    local = True,
)

def _missing_program_impl(ctx):
    program = ctx.actions.declare_file(ctx.label.name)
    ctx.actions.write(program, "")
    return [DefaultInfo(
        files = depset([program]),
        runfiles = ctx.runfiles(files = [program]),
    )]

_missing_program = rule(implementation = _missing_program_impl)

def peer_program(name, found, srcs, deps, visibility = None):
    """A program that is built where its library was found; an empty file elsewhere.

    The file takes the place of a program that was built when the library was there.

    Args:
      name: of the program.
      found: whether its library is there.
      srcs: its sources.
      deps: what they include, the library among them.
      visibility: of the target.
    """
    if found:
        native.cc_binary(name = name, srcs = srcs, visibility = visibility, deps = deps)
    else:
        _missing_program(name = name, visibility = visibility)
