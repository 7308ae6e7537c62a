#include "worker/step_gate.h"

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/mutex.h"
#include "common/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace psring {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

CheckpointOrder Order(CheckpointOrder::Kind kind, int64_t round, int64_t before_step = 0,
                      int64_t advance = 0) {
  CheckpointOrder order;
  order.set_kind(kind);
  order.set_round(round);
  order.set_before_step(before_step);
  order.set_advance(advance);
  return order;
}

// What a gate has replied, as "PROMISES 12"; waits for a reply.
class Replies {
 public:
  void Add(const CheckpointReply& reply) {
    MutexLock lock(&mutex_);
    texts_.push_back(absl::StrCat(CheckpointReply::Kind_Name(reply.kind()), " ",
                                  reply.kind() == CheckpointReply::SAVED
                                      ? reply.file().name()
                                      : absl::StrCat(reply.step())));
    changed_.NotifyAll();
  }
  std::vector<std::string> Await(size_t count) {
    MutexLock lock(&mutex_);
    while (texts_.size() < count) changed_.Wait(&mutex_);
    return texts_;
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  std::vector<std::string> texts_ ABSL_GUARDED_BY(mutex_);
};

class StepGateTest : public testing::Test {
 protected:
  // A worker that makes steps from 10 on, until 20 have been made.
  void Train(StepGate::Save save = nullptr) {
    gate_ = std::make_unique<StepGate>(
        10, std::move(save),
        [this](const CheckpointReply& reply) { replies_.Add(reply); });
    thread_ = std::thread([this] {
      for (int64_t step = 10; step < 20; ++step) {
        Go(step);
        if (step + 1 == 20) return gate_->Finish();
        ended_ = gate_->Pass(step + 1);
        if (!ended_.ok()) return;
      }
    });
  }
  // Lets the worker make all steps up to this one.
  void Allow(int64_t step) {
    MutexLock lock(&mutex_);
    allowed_ = step;
    changed_.NotifyAll();
  }
  // The worker is in this step.
  void AwaitStep(int64_t step) {
    MutexLock lock(&mutex_);
    while (in_ < step) changed_.Wait(&mutex_);
  }
  void TearDown() override {
    if (thread_.joinable()) thread_.join();
  }

  std::unique_ptr<StepGate> gate_;
  Replies replies_;
  absl::Status ended_;
  std::thread thread_;

 private:
  void Go(int64_t step) {
    MutexLock lock(&mutex_);
    in_ = step;
    changed_.NotifyAll();
    while (allowed_ < step) changed_.Wait(&mutex_);
  }

  Mutex mutex_;
  CondVar changed_;
  int64_t allowed_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t in_ ABSL_GUARDED_BY(mutex_) = 0;
};

TEST_F(StepGateTest, HoldsBeforeTheStepThatItHasNotBegun) {
  Train();
  Allow(12);
  AwaitStep(13);
  gate_->Order(Order(CheckpointOrder::HOLD, 1));
  EXPECT_THAT(replies_.Await(1), ElementsAre("PROMISES 14"));
  Allow(100);
  EXPECT_THAT(replies_.Await(2), ElementsAre("PROMISES 14", "HOLDS 14"));
  // Another has promised a later step.
  gate_->Order(Order(CheckpointOrder::HOLD, 1, /*before_step=*/16));
  EXPECT_THAT(replies_.Await(3), ElementsAre("PROMISES 14", "HOLDS 14", "HOLDS 16"));
  EXPECT_TRUE(gate_->holds());
  // A new round finds it between two steps.
  gate_->Order(Order(CheckpointOrder::HOLD, 2));
  EXPECT_EQ(replies_.Await(5)[3], "PROMISES 16");
  EXPECT_EQ(replies_.Await(5)[4], "HOLDS 16");
  gate_->Order(Order(CheckpointOrder::RESUME, 2));
  EXPECT_EQ(replies_.Await(6)[5], "FINISHED 19");
  thread_.join();
  EXPECT_OK(ended_);
  EXPECT_FALSE(gate_->holds());
  gate_->Order(Order(CheckpointOrder::HOLD, 3));
  EXPECT_EQ(replies_.Await(7)[6], "FINISHED 19");
}

TEST_F(StepGateTest, HoldsWhereItIsDueWithoutAPromise) {
  Train();
  gate_->Order(Order(CheckpointOrder::HOLD, 1, /*before_step=*/15));
  Allow(100);
  EXPECT_THAT(replies_.Await(1), ElementsAre("HOLDS 15"));
  gate_->Order(Order(CheckpointOrder::HOLD, 2, /*before_step=*/18));
  EXPECT_THAT(replies_.Await(2), ElementsAre("HOLDS 15", "HOLDS 18"));
  gate_->Order(Order(CheckpointOrder::RESUME, 2));
}

// Only who holds goes further: for who has not come yet the next gate is the right one.
TEST_F(StepGateTest, GoesOneStepFurtherWhereItHolds) {
  Train();
  gate_->Order(Order(CheckpointOrder::HOLD, 1));
  gate_->Order(Order(CheckpointOrder::HOLD, 1, 0, /*advance=*/1));
  Allow(100);
  EXPECT_THAT(replies_.Await(2), ElementsAre("PROMISES 11", "HOLDS 11"));
  gate_->Order(Order(CheckpointOrder::HOLD, 1, 0, /*advance=*/2));
  EXPECT_EQ(replies_.Await(3)[2], "HOLDS 12");
  gate_->Order(Order(CheckpointOrder::RESUME, 1));
}

TEST_F(StepGateTest, SavesOnceWhileItHoldsAndInItsOwnThread) {
  std::vector<std::thread::id> savers;
  Train([&](const CheckpointOrder& order) -> absl::StatusOr<CheckpointPart> {
    savers.push_back(std::this_thread::get_id());
    CheckpointPart part;
    part.set_name(order.folder());
    return part;
  });
  const std::thread::id trainer = thread_.get_id();
  Allow(100);
  gate_->Order(Order(CheckpointOrder::HOLD, 1));
  replies_.Await(2);
  CheckpointOrder save = Order(CheckpointOrder::SAVE, 1);
  save.set_folder("here");
  gate_->Order(save);
  EXPECT_EQ(replies_.Await(3)[2], "SAVED here");
  gate_->Order(save);  // Again.
  gate_->Order(Order(CheckpointOrder::RESUME, 1));
  thread_.join();
  EXPECT_THAT(savers, ElementsAre(trainer));
}

TEST_F(StepGateTest, AFailedSaveEndsTheTraining) {
  Train([](const CheckpointOrder&) -> absl::StatusOr<CheckpointPart> {
    return absl::InternalError("the disk is full");
  });
  Allow(100);
  gate_->Order(Order(CheckpointOrder::HOLD, 1));
  gate_->Order(Order(CheckpointOrder::SAVE, 1));
  thread_.join();
  EXPECT_THAT(ended_, StatusIs(absl::StatusCode::kInternal, HasSubstr("disk is full")));
}

TEST_F(StepGateTest, AnAbortEndsTheHolding) {
  Train();
  gate_->Order(Order(CheckpointOrder::HOLD, 1));
  Allow(100);
  replies_.Await(2);
  gate_->Abort(absl::UnavailableError("worker 1 is lost"));
  thread_.join();
  EXPECT_THAT(ended_, StatusIs(absl::StatusCode::kUnavailable, HasSubstr("is lost")));
}

}  // namespace
}  // namespace psring
