#include "worker/sampler.h"

#include <bit>
#include <numeric>
#include <utility>

#include "common/partition.h"
#include "glog/logging.h"

namespace psring {
namespace {

// Turns related seeds (0, 1, 2 ...) into unrelated words.
class SplitMix64 {
 public:
  explicit SplitMix64(uint64_t state) : state_(state) {}

  uint64_t Next() {
    state_ += 0x9e3779b97f4a7c15;
    uint64_t word = state_;
    word = (word ^ (word >> 30)) * 0xbf58476d1ce4e5b9;
    word = (word ^ (word >> 27)) * 0x94d049bb133111eb;
    return word ^ (word >> 31);
  }

 private:
  uint64_t state_;
};

// xoshiro256**
class Random {
 public:
  explicit Random(uint64_t seed) {
    SplitMix64 words(seed);
    for (uint64_t& word : state_) word = words.Next();
  }

  uint64_t Next() {
    const uint64_t result = std::rotl(state_[1] * 5, 7) * 9;
    const uint64_t shifted = state_[1] << 17;
    state_[2] ^= state_[0];
    state_[3] ^= state_[1];
    state_[1] ^= state_[2];
    state_[0] ^= state_[3];
    state_[2] ^= shifted;
    state_[3] = std::rotl(state_[3], 45);
    return result;
  }

  // Uniform in [0, bound), bound > 0: the high word of bound * Next(). Each value owns
  // either floor or ceil(2^64 / bound) of the 2^64 words; drawing again where the low
  // word is below 2^64 mod bound leaves exactly the floor to each.
  uint64_t Below(uint64_t bound) {
    const uint64_t surplus = -bound % bound;
    while (true) {
      const unsigned __int128 product = static_cast<unsigned __int128>(Next()) * bound;
      if (static_cast<uint64_t>(product) >= surplus) {
        return static_cast<uint64_t>(product >> 64);
      }
    }
  }

 private:
  uint64_t state_[4];
};

// Epochs of one seed, and equal epochs of neighbouring seeds, must not be related: the
// seed is mixed before the epoch joins it.
Random EpochRandom(uint64_t seed, int64_t epoch) {
  return Random(SplitMix64(seed).Next() ^ static_cast<uint64_t>(epoch));
}

}  // namespace

Sampler::Sampler(int64_t sample_count, int64_t global_batch, uint64_t seed,
                 int64_t last_batch)
    : sample_count_(sample_count),
      global_batch_(global_batch),
      seed_(seed),
      last_batch_(last_batch) {
  CHECK(global_batch > 0 && global_batch <= sample_count)
      << "global batch " << global_batch << " of " << sample_count << " samples";
  CHECK(last_batch >= 0 && last_batch <= sample_count % global_batch) << last_batch;
}

std::span<const int64_t> Sampler::GlobalBatch(int64_t step) {
  CHECK_GE(step, 0);
  const int64_t epoch = step / steps_per_epoch();
  if (epoch != epoch_) {
    // Always from the identity, so that the past does not matter.
    permutation_.resize(sample_count_);
    std::iota(permutation_.begin(), permutation_.end(), 0);
    Random random = EpochRandom(seed_, epoch);
    for (int64_t last = sample_count_ - 1; last > 0; --last) {
      std::swap(permutation_[last], permutation_[random.Below(last + 1)]);
    }
    epoch_ = epoch;
  }
  const int64_t begin = step % steps_per_epoch() * global_batch_;
  const bool whole = begin + global_batch_ <= sample_count_;
  return std::span(permutation_).subspan(begin, whole ? global_batch_ : last_batch_);
}

std::span<const int64_t> Sampler::WorkerBatch(int64_t step, int64_t workers,
                                              int64_t rank) {
  const Range part = PartitionRange(global_batch_, workers, rank);
  const std::span<const int64_t> batch = GlobalBatch(step);
  if (part.end() > static_cast<int64_t>(batch.size())) return {};
  return batch.subspan(part.begin, part.count);
}

}  // namespace psring
