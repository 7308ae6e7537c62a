#include "experiments/bench/psring_rank.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/link_counters.h"
#include "common/status_macros.h"
#include "ring/ring_all_reduce.h"
#include "ring/ring_schedule.h"
#include "ring/tcp_rendezvous.h"

namespace psring {
namespace {

class PsringRank final : public BenchRank {
 public:
  explicit PsringRank(const PsringRankOptions& options)
      : options_(options), listener_(RingListener::Listen("127.0.0.1", 0)) {}

  std::string address() const override {
    return listener_.ok() ? absl::StrCat("127.0.0.1:", (*listener_)->port()) : "";
  }

  absl::Status Connect(const std::vector<std::string>& addresses) override {
    RETURN_IF_ERROR(listener_.status());
    ASSIGN_OR_RETURN(
        transport_,
        ConnectRing(*std::move(listener_),
                    {.job = "bench", .rank = options_.rank, .ranks = options_.ranks},
                    addresses[RightOf(options_.rank, options_.ranks)],
                    absl::Seconds(60)));
    all_reduce_ = std::make_unique<RingAllReduce>(
        options_.rank, options_.ranks, transport_.get(), &counters_, RingOptions{});
    return absl::OkStatus();
  }

  absl::StatusOr<std::span<float>> Prepare(int64_t count) override {
    values_.resize(count);
    return values_;
  }

  absl::Status AllReduce() override {
    const auto count = static_cast<int64_t>(values_.size());
    return all_reduce_->Sum(
        0, {.index = 0, .first_tensor = 0, .tensor_count = 1, .range = {0, count}},
        {.data = values_.data(), .count = count});
  }

 private:
  const PsringRankOptions options_;
  absl::StatusOr<std::unique_ptr<RingListener>> listener_;
  LinkCounters counters_;
  std::unique_ptr<Transport> transport_;
  std::unique_ptr<RingAllReduce> all_reduce_;
  std::vector<float> values_;
};

}  // namespace

std::unique_ptr<BenchRank> MakePsringRank(const PsringRankOptions& options) {
  return std::make_unique<PsringRank>(options);
}

}  // namespace psring
