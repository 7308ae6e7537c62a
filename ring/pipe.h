// A bounded queue of bytes.
#ifndef PSRING_RING_PIPE_H_
#define PSRING_RING_PIPE_H_

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

namespace psring {

// Circular, never more than its size. Not thread-safe.
class Pipe {
 public:
  void Resize(size_t bytes) { buffer_.resize(bytes); }  // Of an empty one.
  bool empty() const { return filled_ == 0; }
  bool full() const { return room() == 0; }
  size_t room() const { return buffer_.size() - filled_; }

  // Takes in a first part of the bytes, as many as there is room for; returns how many.
  size_t Put(std::span<const std::byte> bytes) {
    const size_t taken = std::min(bytes.size(), room());
    const size_t begin = (first_ + filled_) % buffer_.size();
    const size_t before_wrap = std::min(taken, buffer_.size() - begin);
    std::copy_n(bytes.begin(), before_wrap, buffer_.begin() + begin);
    std::copy_n(bytes.begin() + before_wrap, taken - before_wrap, buffer_.begin());
    filled_ += taken;
    return taken;
  }

  // Moves the oldest bytes out, as many as there are and fit; returns how many.
  size_t Take(std::span<std::byte> bytes) {
    const size_t taken = std::min(bytes.size(), filled_);
    const size_t before_wrap = std::min(taken, buffer_.size() - first_);
    std::copy_n(buffer_.begin() + first_, before_wrap, bytes.begin());
    std::copy_n(buffer_.begin(), taken - before_wrap, bytes.begin() + before_wrap);
    first_ = (first_ + taken) % buffer_.size();
    filled_ -= taken;
    return taken;
  }

 private:
  std::vector<std::byte> buffer_;
  size_t first_ = 0;   // Index of the oldest byte.
  size_t filled_ = 0;  // Bytes in the buffer.
};

}  // namespace psring

#endif  // PSRING_RING_PIPE_H_
