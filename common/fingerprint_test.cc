#include "common/fingerprint.h"

#include "gtest/gtest.h"

namespace psring {
namespace {

TEST(FingerprintTest, IsTheSameOnEveryMachine) {
  // The published values of 64-bit FNV-1a.
  EXPECT_EQ(FingerprintOf(""), 0xcbf29ce484222325);
  EXPECT_EQ(FingerprintOf("a"), 0xaf63dc4c8601ec8c);
}

}  // namespace
}  // namespace psring
