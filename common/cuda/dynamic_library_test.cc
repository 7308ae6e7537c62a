#include "common/cuda/dynamic_library.h"

#include <string>

#include "absl/strings/match.h"
#include "common/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace psring {
namespace {

using testing::AllOf;
using testing::EndsWith;
using testing::HasSubstr;
using testing::StartsWith;

// Where Bazel puts the libraries of the BUILD file; `number` is which.
std::string NumberLibrary(int number) {
  return "common/cuda/libnumber_" + std::to_string(number) + ".so";
}

absl::Status Anything(const DynamicLibrary& /*library*/) { return absl::OkStatus(); }

int NumberOf(const DynamicLibrary& library) {
  int (*number)() = nullptr;
  EXPECT_OK(library.Bind("Number", &number));
  return number == nullptr ? 0 : number();
}

TEST(DynamicLibraryTest, OpensTheFirstPlaceThatHasIt) {
  ASSERT_OK_AND_ASSIGN(const DynamicLibrary library,
                       DynamicLibrary::Open("numbers",
                                            {{.file = "/nowhere/libnumber.so"},
                                             {.file = NumberLibrary(2)},
                                             {.file = NumberLibrary(1)}},
                                            Anything));
  EXPECT_EQ(NumberOf(library), 2);
  EXPECT_THAT(library.path(), EndsWith(NumberLibrary(2)));
}

TEST(DynamicLibraryTest, PassesOverWhatIsNotAccepted) {
  const auto even = [](const DynamicLibrary& library) {
    return NumberOf(library) % 2 == 0 ? absl::OkStatus()
                                      : absl::FailedPreconditionError("is odd");
  };
  ASSERT_OK_AND_ASSIGN(
      const DynamicLibrary library,
      DynamicLibrary::Open(
          "numbers", {{.file = NumberLibrary(1)}, {.file = NumberLibrary(2)}}, even));
  EXPECT_EQ(NumberOf(library), 2);
}

TEST(DynamicLibraryTest, AnErrorNamesEveryPlaceAndWhy) {
  const auto never = [](const DynamicLibrary& /*library*/) {
    return absl::FailedPreconditionError("is odd");
  };
  const absl::Status status =
      DynamicLibrary::Open("numbers",
                           {{.file = "/nowhere/libnumber.so", .what = "$NUMBERS"},
                            {.file = "libnumber_of_nobody.so.3"},
                            {.file = NumberLibrary(1)}},
                           never)
          .status();
  EXPECT_THAT(
      status,
      StatusIs(
          absl::StatusCode::kFailedPrecondition,
          AllOf(StartsWith("numbers cannot be used: $NUMBERS: /nowhere/libnumber.so"),
                HasSubstr("; libnumber_of_nobody.so.3: "),
                EndsWith("libnumber_1.so: is odd"))));
  EXPECT_FALSE(absl::StrContains(status.message(), "\n"));
}

TEST(DynamicLibraryTest, AMissingFunctionIsNamed) {
  ASSERT_OK_AND_ASSIGN(
      const DynamicLibrary library,
      DynamicLibrary::Open("numbers", {{.file = NumberLibrary(1)}}, Anything));
  int (*letter)() = nullptr;
  EXPECT_THAT(library.Bind("Letter", &letter),
              StatusIs(absl::StatusCode::kFailedPrecondition, "has no Letter"));
  EXPECT_EQ(letter, nullptr);
}

}  // namespace
}  // namespace psring
