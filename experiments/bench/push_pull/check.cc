#include "experiments/bench/push_pull/check.h"

#include <string.h>

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/partition.h"

namespace psring {
namespace {

// Of inputs, and so of parameters, by index.
constexpr int64_t kPeriod = 61;

}  // namespace

float PushPullInput(int worker, int64_t operation, int64_t index) {
  return static_cast<float>(1 + worker + (index + operation) % kPeriod);
}

float PushPullExpected(bool lockstep, int workers, int64_t operations, int64_t index) {
  const float share = lockstep ? 1.0f / static_cast<float>(workers) : 1.0f;
  float parameter = 0;
  for (int64_t operation = 0; operation < operations; ++operation) {
    float sum = 0;
    for (int worker = 0; worker < workers; ++worker) {
      sum += PushPullInput(worker, operation, index);
    }
    parameter -= sum * share;
  }
  return parameter;
}

Wrong WrongParameters(bool lockstep, int workers, int64_t operations,
                      std::span<const float> parameters) {
  std::vector<float> of_phase;
  for (int64_t i = 0; i < std::min(kPeriod, std::ssize(parameters)); ++i) {
    of_phase.push_back(PushPullExpected(lockstep, workers, operations, i));
  }
  Wrong wrong;
  for (size_t i = 0; i < parameters.size(); ++i) {
    const float expected = of_phase[i % kPeriod];
    if (parameters[i] == expected) continue;
    if (wrong.elements++ == 0) {
      wrong.first =
          absl::StrCat("element ", i, ": ", parameters[i], " instead of ", expected);
    }
  }
  return wrong;
}

Wrong WrongEchoes(const PushPullPlan& plan, std::span<float> gradients,
                  std::span<float> parameters) {
  const size_t width = sizeof(float) / plan.echoes();  // Of an element of a push.
  Wrong wrong;
  for (int server = 0; server < plan.slots.servers; ++server) {
    const std::vector<SlotBytes> slots = SlotBytesOf(plan, server, gradients, parameters);
    for (size_t slot = 0; slot < slots.size(); ++slot) {
      const auto& [push, answer] = slots[slot];
      const Range range = plan.slots.slots[plan.slots.of_server[server][slot]].range;
      for (size_t at = 0; at < answer.size(); at += width) {
        if (memcmp(&answer[at], &push[at % push.size()], width) == 0) continue;
        if (wrong.elements++ > 0) continue;
        wrong.first = absl::StrCat("element ", range.begin + at % push.size() / width,
                                   " did not come back as it was pushed");
      }
    }
  }
  return wrong;
}

}  // namespace psring
