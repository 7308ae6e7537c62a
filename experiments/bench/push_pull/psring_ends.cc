#include <cstdint>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/computed_step_constants.h"
#include "common/gradient_exchange.h"
#include "common/status_macros.h"
#include "common/time_source.h"
#include "experiments/bench/push_pull/ends.h"
#include "server/parameter_service.h"
#include "server/parameter_shard.h"
#include "server/policies.h"
#include "worker/grpc_parameter_channel.h"
#include "worker/parameter_server_exchange.h"

namespace psring {
namespace {

// Nobody reaches it: a contestant is measured for as long as somebody likes.
constexpr int64_t kEndlessSteps = int64_t{1} << 40;
// A worker waits a little longer than a server (kEndPatience), who knows whom it waits
// for.
constexpr absl::Duration kWorkerPatience = absl::Seconds(70);

Optimizer PlainSgd() {
  Optimizer optimizer;
  optimizer.mutable_sgd()->set_learning_rate(1);
  return optimizer;
}

class PsringServer final : public PushPullServer {
 public:
  PsringServer(PushPullEnds ends, int server) : ends_(std::move(ends)), server_(server) {}

  absl::StatusOr<std::string> Open(const PushPullPlan& plan) override {
    host_.reset();
    shard_.reset();  // Its memory goes before the next one's comes.
    ASSIGN_OR_RETURN(auto policy, MakePolicy(ends_.settings.mode(), plan.workers));
    ParameterShard::Options options =
        ParameterShard::OptionsFor(plan.buckets, plan.slots, server_);
    options.workers = plan.workers;
    options.stale_updates = ends_.settings.mode().stale_updates();
    options.optimizer = PlainSgd();
    options.constants = std::make_shared<ComputedStepConstants>(
        options.optimizer, kEndlessSteps, plan.workers,
        policy->promise().contributions_per_update);
    options.time = &time_;
    shard_ = std::make_shared<ParameterShard>(std::move(options), std::move(policy));
    host_ = std::make_unique<ParameterServerHost>(
        ParameterServerHost::Options{
            .job = ends_.job, .wire = plan.wire, .stall_timeout = kEndPatience},
        shard_);
    ASSIGN_OR_RETURN(const int port, host_->Start("127.0.0.1:0"));
    return absl::StrCat("127.0.0.1:", port);
  }

 private:
  const PushPullEnds ends_;
  const int server_;
  const RealTime time_;
  std::shared_ptr<ParameterShard> shard_;
  std::unique_ptr<ParameterServerHost> host_;
};

class PsringWorker final : public PushPullWorker {
 public:
  PsringWorker(PushPullEnds ends, int worker) : ends_(std::move(ends)), worker_(worker) {}

  absl::Status Connect(const PushPullPlan& plan, std::span<float> gradients,
                       std::span<float> parameters,
                       const std::vector<std::string>& servers) override {
    ASSIGN_OR_RETURN(const auto policy, MakePolicy(ends_.settings.mode(), plan.workers));
    std::vector<std::unique_ptr<ParameterChannel>> channels;
    for (size_t server = 0; server < servers.size(); ++server) {
      channels.push_back(NewGrpcParameterChannel({.job = ends_.job,
                                                  .rank = worker_,
                                                  .server = static_cast<int>(server),
                                                  .address = servers[server],
                                                  .stall_timeout = kWorkerPatience}));
    }
    // As in training (worker/main/exchange_factory.cc).
    const int64_t window =
        policy->promise().lockstep && plan.workers > 1
            ? ParameterServerExchange::WindowBytes(plan.slots, plan.workers,
                                                   /*bytes_on_the_way=*/0)
            : ParameterServerExchange::kNoWindow;
    buckets_ = plan.buckets.buckets;
    step_ = 0;
    exchange_ = std::make_unique<ParameterServerExchange>(
        worker_, plan.slots, std::move(channels), &time_, /*local_server=*/std::nullopt,
        window, plan.wire);
    return exchange_->Bind({.data = parameters.data(), .count = plan.count},
                           {.data = gradients.data(), .count = plan.count});
  }

  absl::Status Exchange(bool) override {
    for (const Bucket& bucket : buckets_) {
      RETURN_IF_ERROR(exchange_->Launch(step_, bucket, ReadyEvent::Happened()));
    }
    return exchange_->Finish(step_++).status();
  }

  void Close() override { exchange_.reset(); }

  bool echoes() const override { return false; }

 private:
  const PushPullEnds ends_;
  const int worker_;
  const RealTime time_;
  std::vector<Bucket> buckets_;
  int64_t step_ = 0;
  std::unique_ptr<ParameterServerExchange> exchange_;
};

}  // namespace

std::unique_ptr<PushPullServer> MakePsringServer(const PushPullEnds& ends, int server) {
  return std::make_unique<PsringServer>(ends, server);
}

std::unique_ptr<PushPullWorker> MakePsringWorker(const PushPullEnds& ends, int worker) {
  return std::make_unique<PsringWorker>(ends, worker);
}

}  // namespace psring
