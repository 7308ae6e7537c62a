// How much of its large buffers a process has, by what they are for.
#ifndef PSRING_COMMON_MEMORY_GAUGE_H_
#define PSRING_COMMON_MEMORY_GAUGE_H_

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <string>

namespace psring {

// Purposes that several processes, and the budget (experiments/memory_budget.h), share.
namespace memory_purpose {
inline constexpr char kParameters[] = "parameters";
inline constexpr char kGradients[] = "gradients";
inline constexpr char kOptimizerState[] = "optimizer state";
// The sum over micro-batches.
inline constexpr char kAccumulatedGradients[] = "accumulated gradients";
// Gradients as they are on the wire, and what top_k has left out; not with fp32.
inline constexpr char kWireBuffers[] = "wire buffers";
// Of servers: versions of parameters beside the current ones, and gradients of workers.
inline constexpr char kOlderVersions[] = "older versions";
inline constexpr char kContributions[] = "contributions";
// All memory of the process, as the kernel has it.
inline constexpr char kResident[] = "resident";
}  // namespace memory_purpose

// Bytes of the buffers of one purpose, now and at most so far. Any thread.
class MemoryGauge {
 public:
  void Add(int64_t bytes);
  void Remove(int64_t bytes) { now_.fetch_sub(bytes, std::memory_order_relaxed); }
  int64_t now() const { return now_.load(std::memory_order_relaxed); }
  int64_t peak() const { return peak_.load(std::memory_order_relaxed); }

 private:
  std::atomic<int64_t> now_{0};
  std::atomic<int64_t> peak_{0};
};

// Counts a buffer for as long as it lives; a member beside it. Moves with it.
class MemoryClaim {
 public:
  MemoryClaim() = default;
  // Without a gauge nobody counts.
  MemoryClaim(std::shared_ptr<MemoryGauge> gauge, int64_t bytes);
  MemoryClaim(MemoryClaim&& other) noexcept;
  // Until the end both count.
  MemoryClaim& operator=(MemoryClaim&& other) noexcept;
  ~MemoryClaim();

 private:
  std::shared_ptr<MemoryGauge> gauge_;
  int64_t bytes_ = 0;
};

// The gauges of one process. One thread; the gauges themselves outlive it where they are
// still used.
class MemoryGauges {
 public:
  // The same for the same purpose.
  std::shared_ptr<MemoryGauge> Of(const std::string& purpose);

  // The most of each purpose that has been asked for.
  std::map<std::string, int64_t> Peaks() const;

 private:
  std::map<std::string, std::shared_ptr<MemoryGauge>> gauges_;
};

}  // namespace psring

#endif  // PSRING_COMMON_MEMORY_GAUGE_H_
