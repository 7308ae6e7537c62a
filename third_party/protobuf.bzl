"""C++ libraries from .proto files, through the system's protoc."""

def psring_proto_library(name, src, deps = [], services = False, visibility = None):
    """Compiles proto/<name>.proto into <name>.pb.h and, with services, <name>.grpc.pb.h.

    Args:
      name: of the resulting cc_library.
      src: the .proto file.
      deps: other psring_proto_library targets that the file imports.
      services: whether the file defines gRPC services. Headers that pull gRPC in are
        slow to compile, so messages and services are separate targets: the services
        are <name>_grpc.
      visibility: of both libraries.
    """
    base = src[:-len(".proto")]
    native.filegroup(
        name = name + "_sources",
        srcs = [src] + [dep + "_sources" for dep in deps],
    )
    native.genrule(
        name = name + "_protoc",
        srcs = [name + "_sources"],
        outs = [base + ".pb.h", base + ".pb.cc"],
        cmd = "protoc --proto_path=. --cpp_out=$(GENDIR) proto/%s" % src,
    )
    native.cc_library(
        name = name,
        srcs = [base + ".pb.cc"],
        hdrs = [base + ".pb.h"],
        visibility = visibility,
        deps = deps + ["//third_party:protobuf"],
    )
    if services:
        native.genrule(
            name = name + "_grpc_protoc",
            srcs = [name + "_sources"],
            outs = [base + ".grpc.pb.h", base + ".grpc.pb.cc"],
            cmd = ("protoc --proto_path=. --plugin=protoc-gen-grpc=/usr/bin/grpc_cpp_plugin" +
                   " --grpc_out=$(GENDIR) proto/%s") % src,
        )
        native.cc_library(
            name = name + "_grpc",
            srcs = [base + ".grpc.pb.cc"],
            hdrs = [base + ".grpc.pb.h"],
            visibility = visibility,
            deps = [":" + name, "//third_party:grpc"],
        )
