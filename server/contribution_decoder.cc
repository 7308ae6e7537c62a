#include "server/contribution_decoder.h"

#include <map>
#include <span>
#include <utility>

#include "common/gradient_codec.h"
#include "common/mutex.h"
#include "common/status_macros.h"
#include "common/wire_message.h"

namespace psring {

// Those that nobody uses, by size.
class ContributionDecoder::Buffers {
 public:
  using Buffer = std::unique_ptr<std::vector<float>>;

  Buffer Take(int64_t count) {
    {
      MutexLock lock(&mutex_);
      std::vector<Buffer>& unused = unused_[count];
      if (!unused.empty()) {
        Buffer buffer = std::move(unused.back());
        unused.pop_back();
        return buffer;
      }
    }
    return std::make_unique<std::vector<float>>(count);
  }
  void Return(Buffer buffer) {
    MutexLock lock(&mutex_);
    unused_[static_cast<int64_t>(buffer->size())].push_back(std::move(buffer));
  }

 private:
  Mutex mutex_;
  std::map<int64_t, std::vector<Buffer>> unused_ ABSL_GUARDED_BY(mutex_);
};

ContributionDecoder::ContributionDecoder(const WireType& wire)
    : wire_(wire), buffers_(std::make_shared<Buffers>()) {}

absl::StatusOr<Contribution> ContributionDecoder::Decode(
    std::vector<Bytes> payload, std::shared_ptr<const void> owner, int64_t count) const {
  Contribution contribution;
  for (const Bytes& piece : payload) {
    contribution.payload_bytes += static_cast<int64_t>(piece.size());
  }
  if (wire_.is_fp32()) {
    ASSIGN_OR_RETURN(contribution.gradient, FloatsOf(std::move(payload)));
    contribution.owner = std::move(owner);
    return contribution;
  }
  const std::shared_ptr<std::vector<float>> values(
      buffers_->Take(count).release(),
      [buffers = buffers_](std::vector<float>* returned) {
        buffers->Return(Buffers::Buffer(returned));
      });
  RETURN_IF_ERROR(DecodeGradient(wire_, payload, *values));
  contribution.gradient = FloatPieces(*values);
  contribution.owner = values;
  return contribution;
}

}  // namespace psring
