#include "ring/operation_header.h"

#include "common/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace psring {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

constexpr OperationHeader kOurs = {
    .job_fingerprint = 1, .sequence = 9, .step = 7, .count = 100, .bucket = 3};

TEST(OperationHeaderTest, TheSameOperationPasses) {
  EXPECT_OK(CheckSameOperation(kOurs, kOurs, "theirs", "ours"));
}

TEST(OperationHeaderTest, EachFieldMattersAndBothSidesAreNamed) {
  const auto with = [](auto change) {
    OperationHeader theirs = kOurs;
    change(theirs);
    return theirs;
  };
  const struct {
    OperationHeader theirs;
    const char* said;
  } cases[] = {
      {with([](auto& h) { h.kind = OperationKind::kBroadcast; }), "broadcast of 100"},
      {with([](auto& h) { h.kind = OperationKind::kReduceScatter; }),
       "reduce-scatter of bucket 3"},
      {with([](auto& h) { h.kind = OperationKind::kAllGather; }),
       "all-gather of bucket 3"},
      {with([](auto& h) { h.kind = OperationKind::kBarrier; }), "barrier, operation 9"},
      {with([](auto& h) { h.kind = OperationKind{7}; }), "unknown operation 7"},
      {with([](auto& h) { h.job_fingerprint = 2; }), "of job 0000000000000002"},
      {with([](auto& h) { h.sequence = 10; }), "operation 10 of job"},
      {with([](auto& h) { h.step = -1; }), "at step -1"},
      {with([](auto& h) { h.count = 101; }), "(101 floats)"},
      {with([](auto& h) { h.bucket = 4; }), "sum of bucket 4"},
      {with([](auto& h) { h.element_type = ElementType::kBf16; }), "(100 bf16 numbers)"},
      {with([](auto& h) { h.element_type = ElementType::kFp16; }), "(100 fp16 numbers)"},
      {with([](auto& h) { h.element_type = ElementType{9}; }), "(100 unknown elements)"},
  };
  for (const auto& test : cases) {
    EXPECT_THAT(
        CheckSameOperation(test.theirs, kOurs, "worker 2", "worker 3"),
        StatusIs(absl::StatusCode::kFailedPrecondition,
                 AllOf(HasSubstr("worker 2 is at"), HasSubstr(test.said),
                       HasSubstr("and worker 3 at sum of bucket 3 (100 floats) at "
                                 "step 7, operation 9 of job"))));
  }
}

TEST(OperationHeaderTest, OtherBytesAreNotDescribedAsAnOperation) {
  OperationHeader theirs = kOurs;
  theirs.magic = 0;
  EXPECT_THAT(CheckSameOperation(theirs, kOurs, "worker 2", "worker 3"),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       AllOf(HasSubstr("worker 2 sent bytes that begin no operation"),
                             Not(HasSubstr("bucket")))));
}

}  // namespace
}  // namespace psring
