// For tests that need a Unix socket.
#ifndef PSRING_EXPERIMENTS_BENCH_SOCKET_FOLDER_TEST_UTIL_H_
#define PSRING_EXPERIMENTS_BENCH_SOCKET_FOLDER_TEST_UTIL_H_

#include <stdlib.h>

#include <filesystem>
#include <string>

#include "gtest/gtest.h"

namespace psring {

// Each test has a new folder, whose path is short: that of a socket is limited.
class SocketFolderTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = "/tmp/psring_test_XXXXXX";
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string folder_;
};

}  // namespace psring

#endif  // PSRING_EXPERIMENTS_BENCH_SOCKET_FOLDER_TEST_UTIL_H_
