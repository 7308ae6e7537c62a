#include "experiments/bench/rank.h"

#include <algorithm>
#include <chrono>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "experiments/bench/inputs.h"
#include "experiments/bench/obey.h"
#include "proto/bench.pb.h"

namespace psring {
namespace {

// Sums of anything but zeros, in place and over and over, would grow until they overflow;
// a processor adds zeros at the same speed as other numbers.
absl::Status Time(const BenchMeasure& measure, BenchRank& subject, BenchReply* reply) {
  ASSIGN_OR_RETURN(const std::span<float> values, subject.Prepare(measure.count()));
  std::fill(values.begin(), values.end(), 0.0f);
  reply->mutable_times_ns()->Reserve(measure.operations());
  for (int operation = 0; operation < measure.operations(); ++operation) {
    const auto start = std::chrono::steady_clock::now();
    RETURN_IF_ERROR(subject.AllReduce());
    reply->add_times_ns(std::chrono::duration_cast<std::chrono::nanoseconds>(
                            std::chrono::steady_clock::now() - start)
                            .count());
  }
  return absl::OkStatus();
}

absl::Status Check(const BenchMeasure& measure, int rank, int ranks, BenchRank& subject,
                   BenchReply* reply) {
  ASSIGN_OR_RETURN(const std::span<float> values, subject.Prepare(measure.count()));
  for (int i = 0; i < measure.operations(); ++i) {
    const int64_t operation = measure.first_operation() + i;
    for (int64_t index = 0; index < measure.count(); ++index) {
      values[index] = BenchInput(rank, operation, index);
    }
    RETURN_IF_ERROR(subject.AllReduce());
    for (int64_t index = 0; index < measure.count(); ++index) {
      const float expected = subject.Expected(ranks, operation, index);
      if (values[index] == expected) continue;
      if (reply->wrong() == 0) {
        reply->set_first_wrong(absl::StrCat(
            "rank ", rank, ", ",
            DescribeWrongValue(ranks, operation, index, values[index], expected)));
      }
      reply->set_wrong(reply->wrong() + 1);
    }
  }
  return absl::OkStatus();
}

absl::Status Obey(const BenchCommand& command, int rank, int ranks, BenchRank& subject,
                  BenchReply* reply) {
  switch (command.command_case()) {
    case BenchCommand::kConnect:
      return subject.Connect(
          {command.connect().addresses().begin(), command.connect().addresses().end()});
    case BenchCommand::kMeasure:
      return command.measure().check()
                 ? Check(command.measure(), rank, ranks, subject, reply)
                 : Time(command.measure(), subject, reply);
    default:
      return UnknownCommandError();
  }
}

}  // namespace

float BenchRank::Expected(int ranks, int64_t operation, int64_t index) const {
  return BenchSum(ranks, operation, index);
}

absl::Status ServeBench(const std::string& control, int rank, int ranks,
                        BenchRank& subject) {
  BenchHello hello;
  hello.set_rank(rank);
  hello.set_ranks(ranks);
  hello.set_address(subject.address());
  hello.set_version(subject.version());
  return ObeyLauncher(control, hello,
                      [&](const BenchCommand& command, BenchReply* reply) {
                        return Obey(command, rank, ranks, subject, reply);
                      });
}

}  // namespace psring
