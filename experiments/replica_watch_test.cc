#include "experiments/replica_watch.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace psring {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::UnorderedElementsAre;

StepRecord Checked(int rank, int64_t step, const std::vector<uint64_t>& tensors) {
  StepRecord record;
  record.set_rank(rank);
  record.set_step(step);
  uint64_t sum = 0;
  for (const uint64_t digest : tensors) {
    record.add_tensor_digests(digest);
    sum += digest;
  }
  record.set_parameter_digest(sum);
  return record;
}

// "rank 1, step 2, tensor 3: 4"
std::vector<std::string> Texts(const std::vector<TensorDigest>& digests) {
  std::vector<std::string> texts;
  for (const TensorDigest& d : digests) {
    texts.push_back(absl::StrCat("rank ", d.rank, ", step ", d.step, ", tensor ",
                                 d.tensor, ": ", d.digest));
  }
  return texts;
}

TEST(ReplicaWatchTest, KeepsNothingOfEqualReplicas) {
  ReplicaWatch watch(2);
  for (int64_t step = 0; step < 3; ++step) {
    for (int rank = 0; rank < 2; ++rank) {
      EXPECT_THAT(watch.Take(Checked(rank, step, {1, 2})), IsEmpty());
    }
  }
  EXPECT_THAT(watch.End(), IsEmpty());
}

TEST(ReplicaWatchTest, KeepsUnequalTensorsOfTheFirstUnequalStepOnce) {
  ReplicaWatch watch(3);
  EXPECT_THAT(watch.Take(Checked(1, 5, {10, 21, 30})), IsEmpty());
  EXPECT_THAT(watch.Take(Checked(1, 6, {11, 21, 31})), IsEmpty());
  EXPECT_THAT(watch.Take(Checked(0, 6, {12, 22, 32})), IsEmpty());
  EXPECT_THAT(watch.Take(Checked(0, 5, {10, 20, 30})), IsEmpty());
  EXPECT_THAT(
      Texts(watch.Take(Checked(2, 5, {10, 20, 30}))),
      UnorderedElementsAre("rank 0, step 5, tensor 1: 20", "rank 1, step 5, tensor 1: 21",
                           "rank 2, step 5, tensor 1: 20"));
  // From then on everything may differ.
  EXPECT_THAT(watch.Take(Checked(2, 6, {12, 22, 32})), IsEmpty());
  EXPECT_THAT(watch.End(), IsEmpty());
}

// A step that some have not come to, because the run has ended early.
TEST(ReplicaWatchTest, TheEndBringsWhatWasReportedSoFar) {
  ReplicaWatch watch(3);
  watch.Take(Checked(0, 5, {10, 20}));
  watch.Take(Checked(2, 5, {11, 20}));
  EXPECT_THAT(Texts(watch.End()), ElementsAre("rank 0, step 5, tensor 0: 10",
                                              "rank 2, step 5, tensor 0: 11"));
}

TEST(ReplicaWatchTest, StepsThatWereNotCheckedAndASingleWorkerDoNotCount) {
  ReplicaWatch watch(2);
  StepRecord unchecked = Checked(0, 1, {1});
  unchecked.clear_parameter_digest();
  watch.Take(unchecked);
  watch.Take(Checked(1, 1, {2}));
  EXPECT_THAT(watch.End(), IsEmpty());
  ReplicaWatch single(1);
  EXPECT_THAT(single.Take(Checked(0, 1, {1})), IsEmpty());
}

}  // namespace
}  // namespace psring
