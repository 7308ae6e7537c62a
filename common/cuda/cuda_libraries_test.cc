#include "common/cuda/cuda_libraries.h"

#include <cstdlib>
#include <string>

#include "common/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace psring {
namespace {

using testing::AllOf;
using testing::EndsWith;
using testing::HasSubstr;
using testing::StartsWith;

constexpr char kWhole[] = "common/cuda/libcuda_of_tests.so";
constexpr char kWithoutSums[] = "common/cuda/libcuda_without_sums.so";

// Libraries that have the names of both (testdata/cuda_library.cc).
class CudaLibrariesTest : public testing::Test {
 protected:
  void SetVersion(int version) {
    setenv("VERSION_OF_TESTS", std::to_string(version).c_str(), /*replace=*/1);
  }
};

TEST_F(CudaLibrariesTest, NcclIsFilledFromTheNamedFile) {
  SetVersion(NCCL_VERSION_CODE);
  ASSERT_OK_AND_ASSIGN(const NcclFunctions nccl, LoadNccl({.nccl = kWhole}));
  EXPECT_THAT(nccl.path, EndsWith(kWhole));
  EXPECT_EQ(nccl.version, std::to_string(NCCL_MAJOR) + "." + std::to_string(NCCL_MINOR) +
                              "." + std::to_string(NCCL_PATCH));
  EXPECT_NE(nccl.all_reduce, nullptr);
  EXPECT_NE(nccl.get_last_error, nullptr);
}

TEST_F(CudaLibrariesTest, NcclMustNotBeOlderThanItsHeaderNorOfAnotherMajor) {
  SetVersion(NCCL_VERSION_CODE - 1);
  EXPECT_THAT(LoadNccl({.nccl = kWhole}).status(),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       AllOf(StartsWith("NCCL cannot be used: $PSRING_NCCL_LIB: "),
                             HasSubstr("libcuda_of_tests.so: is version "),
                             EndsWith(" or a later 2.x"))));
  SetVersion(30000);
  EXPECT_THAT(LoadNccl({.nccl = kWhole}).status(),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("is version 3.0.0, and this program takes 2.")));
  SetVersion(29999);
  EXPECT_OK(LoadNccl({.nccl = kWhole}).status());
}

TEST_F(CudaLibrariesTest, WhatIsNamedIsNowhereElse) {
  SetVersion(NCCL_VERSION_CODE);
  EXPECT_THAT(LoadNccl({.nccl = "/nowhere/libnccl.so"}).status(),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       AllOf(HasSubstr("$PSRING_NCCL_LIB: /nowhere/libnccl.so: "),
                             testing::Not(HasSubstr("libnccl.so.2")))));
  EXPECT_THAT(LoadCublas({.cublas = "/nowhere/libcublas.so"}).status(),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("$PSRING_CUBLAS_LIB: /nowhere/libcublas.so: ")));
}

TEST_F(CudaLibrariesTest, CublasIsOfTheHeadersMajorVersion) {
  SetVersion(CUBLAS_VER_MAJOR * 10000 + 203);
  ASSERT_OK_AND_ASSIGN(const CublasFunctions cublas, LoadCublas({.cublas = kWhole}));
  EXPECT_EQ(cublas.version, std::to_string(CUBLAS_VER_MAJOR) + ".2.3");
  EXPECT_THAT(cublas.path, EndsWith(kWhole));
  EXPECT_NE(cublas.sgemm, nullptr);
  SetVersion((CUBLAS_VER_MAJOR - 1) * 10000 + 203);
  EXPECT_THAT(LoadCublas({.cublas = kWhole}).status(),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr(".2.3, and this program takes " +
                                 std::to_string(CUBLAS_VER_MAJOR) + ".x")));
}

TEST_F(CudaLibrariesTest, AMissingFunctionIsNamed) {
  SetVersion(NCCL_VERSION_CODE);
  EXPECT_THAT(LoadNccl({.nccl = kWithoutSums}).status(),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       EndsWith("libcuda_without_sums.so: has no ncclAllReduce")));
  SetVersion(CUBLAS_VER_MAJOR * 10000);
  EXPECT_THAT(LoadCublas({.cublas = kWithoutSums}).status(),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       EndsWith("libcuda_without_sums.so: has no cublasSgemm_v2")));
}

TEST_F(CudaLibrariesTest, TheEnvironmentNamesFiles) {
  setenv("PSRING_NCCL_LIB", "/a/nccl", 1);
  setenv("PSRING_CUBLAS_LIB", "/a/cublas", 1);
  CudaLibraryPlaces places = CudaLibraryPlaces::FromEnvironment();
  EXPECT_EQ(places.nccl, "/a/nccl");
  EXPECT_EQ(places.cublas, "/a/cublas");
  EXPECT_THAT(places.folder, StartsWith("/"));
  unsetenv("PSRING_NCCL_LIB");
  unsetenv("PSRING_CUBLAS_LIB");
  places = CudaLibraryPlaces::FromEnvironment();
  EXPECT_EQ(places.nccl, "");
  EXPECT_EQ(places.cublas, "");
}

}  // namespace
}  // namespace psring
