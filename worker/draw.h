// Random numbers that depend on what they are for, and not on how many came before them.
#ifndef PSRING_WORKER_DRAW_H_
#define PSRING_WORKER_DRAW_H_

#include <cstdint>

namespace psring {

// 64 random bits: SplitMix64's output for the state seed + (index + 1) * gamma.
inline uint64_t Draw(uint64_t seed, uint64_t index) {
  uint64_t x = seed * 0xd1342543de82ef95u + (index + 1) * 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

// 53 of them: uniform in [-1, 1).
inline double UniformDraw(uint64_t seed, uint64_t index) {
  return static_cast<double>(Draw(seed, index) >> 11) * 0x1p-52 - 1.0;
}

}  // namespace psring

#endif  // PSRING_WORKER_DRAW_H_
