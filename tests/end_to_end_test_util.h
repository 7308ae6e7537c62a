// The psring command as a user runs it: real processes, real sockets, real data.
#ifndef PSRING_TESTS_END_TO_END_TEST_UTIL_H_
#define PSRING_TESTS_END_TO_END_TEST_UTIL_H_

#include <sys/types.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "nlohmann/json_fwd.hpp"
#include "tests/subprocess.h"

namespace psring {

// For what takes as long as the machine needs; nothing is meant to take it.
inline constexpr absl::Duration kPatience = absl::Minutes(2);
// The promise: whoever dies, every process has ended by then.
inline constexpr absl::Duration kEndOfRun = absl::Seconds(10);
// Steps of an arm that is not meant to come to its end.
inline constexpr int kEndless = 100000000;

// Has a folder of its own, in which the runs of a test leave their results as "out". The
// programs are to be among the test's data.
class EndToEndTest : public testing::Test {
 protected:
  void SetUp() override;
  void TearDown() override;

  std::string Path(const std::string& name) const;
  // Both return the path of the file that they write. The configuration has two workers
  // and the arms "servers", of two, and "ring".
  std::string Write(const std::string& name, const std::string& text) const;
  std::string Config(int steps) const;

  // `psring COMMAND CONFIG --out OUT MORE...`
  std::unique_ptr<Subprocess> Start(const std::string& command, const std::string& config,
                                    const std::vector<std::string>& more = {});

  nlohmann::json Summary() const;
  // The first column of what a query of the run database gives; nothing where the file
  // cannot be read yet.
  std::vector<double> Query(const std::string& sql) const;
  // Of a query with one row.
  double QueryOne(const std::string& sql) const;

  // The process of a running arm whose program and rank are these; 0: there is none.
  static pid_t Find(pid_t launcher, const std::string& program, int rank);

  std::string folder_;
};

}  // namespace psring

#endif  // PSRING_TESTS_END_TO_END_TEST_UTIL_H_
