// `psring bench ...` as a user runs it.
#ifndef PSRING_TESTS_BENCH_TEST_UTIL_H_
#define PSRING_TESTS_BENCH_TEST_UTIL_H_

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "nlohmann/json_fwd.hpp"
#include "tests/end_to_end_test_util.h"
#include "tests/subprocess.h"

namespace psring {

class BenchCommandTest : public EndToEndTest {
 protected:
  // "all-reduce"
  explicit BenchCommandTest(std::string command) : command_(std::move(command)) {}

  // `psring bench COMMAND ARGUMENTS...`
  std::unique_ptr<Subprocess> Bench(std::vector<std::string> arguments) const;

  // The file that `--json Path("rows.json")` has written.
  nlohmann::json WrittenJson() const;

  // Arguments, and what the one line has that refuses them, with exit code 2.
  using Refusals = std::vector<std::pair<std::vector<std::string>, std::string>>;
  void ExpectRefused(const Refusals& refusals) const;
  // Flags, each with a number that it does not take.
  void ExpectOutOfRange(
      const std::vector<std::pair<std::string, std::string>>& flags) const;

 private:
  const std::string command_;
};

// Expects that an error ends with the folder of the processes' logs, and that it is
// there; removes it.
void ExpectKeptLogs(const std::string& err);

}  // namespace psring

#endif  // PSRING_TESTS_BENCH_TEST_UTIL_H_
