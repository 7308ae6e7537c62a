// TensorBoard's event files, read back.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/status_matchers.h"
#include "experiments/tensorboard/event_file.h"
#include "experiments/tensorboard/tensorboard_writer.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/coordinator.pb.h"
#include "proto/record.pb.h"
#include "proto/tensorboard_event.pb.h"

namespace psring {
namespace {

using testing::HasSubstr;
using testing::Pair;
using testing::UnorderedElementsAre;

// Independent of the code under test: bit by bit, by the polynomial of RFC 3720.
uint32_t SlowMaskedCrc(absl::string_view data) {
  uint32_t crc = 0xFFFFFFFFU;
  for (const char byte : data) {
    crc ^= static_cast<unsigned char>(byte);
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) ? 0x82F63B78U : 0);
  }
  crc = ~crc;
  return ((crc >> 15) | (crc << 17)) + 0xa282ead8U;
}

uint64_t LittleEndian(absl::string_view bytes) {
  uint64_t number = 0;
  for (size_t i = bytes.size(); i > 0; --i) {
    number = number << 8 | static_cast<unsigned char>(bytes[i - 1]);
  }
  return number;
}

// Checks every checksum.
std::vector<tensorboard::Event> Parse(absl::string_view file) {
  std::vector<tensorboard::Event> events;
  while (!file.empty()) {
    if (file.size() < 16) {
      ADD_FAILURE() << "a frame is cut";
      break;
    }
    const uint64_t length = LittleEndian(file.substr(0, 8));
    EXPECT_EQ(LittleEndian(file.substr(8, 4)), SlowMaskedCrc(file.substr(0, 8)));
    if (file.size() < 16 + length) {
      ADD_FAILURE() << "a record is cut";
      break;
    }
    const absl::string_view data = file.substr(12, length);
    EXPECT_EQ(LittleEndian(file.substr(12 + length, 4)), SlowMaskedCrc(data));
    EXPECT_TRUE(events.emplace_back().ParseFromString(std::string(data)));
    file.remove_prefix(16 + length);
  }
  return events;
}

std::vector<tensorboard::Event> Read(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  const std::string content{std::istreambuf_iterator<char>(file), {}};
  return Parse(content);
}

TEST(FramedRecordTest, BytesByHand) {
  // Of "123456789" the CRC-32C is e3069283, the check value of its definition; turned by
  // 15 bits 2507c60d, plus a282ead8.
  EXPECT_EQ(MaskedCrc32c("123456789"), 0xc78ab0e5U);
  const std::string framed = FramedRecord("123456789");
  EXPECT_EQ(framed.size(), 8U + 4 + 9 + 4);
  EXPECT_EQ(framed.substr(0, 8), std::string("\x09\0\0\0\0\0\0\0", 8));
  EXPECT_EQ(framed.substr(12, 9), "123456789");
  EXPECT_EQ(framed.substr(21), "\xe5\xb0\x8a\xc7");
}

class EventFileTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = absl::StrCat(testing::TempDir(), "/tensorboard-",
                           testing::UnitTest::GetInstance()->current_test_info()->name());
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
  }

  std::string folder_;
};

TEST_F(EventFileTest, StartsWithItsVersionAndKeepsWhatIsAdded) {
  const absl::Time time = absl::FromUnixSeconds(1700000000);
  ASSERT_OK_AND_ASSIGN(const auto file, EventFile::Create(folder_, time, "host"));
  EXPECT_EQ(file->path(), absl::StrCat(folder_, "/events.out.tfevents.1700000000.host"));
  file->Add(time + absl::Milliseconds(1500), 3, {{"loss", 0.25}, {"accuracy", 0.5}});
  ASSERT_OK(file->Flush());
  const std::vector<tensorboard::Event> events = Read(file->path());
  ASSERT_EQ(events.size(), 2U);
  EXPECT_EQ(events[0].file_version(), "brain.Event:2");
  EXPECT_EQ(events[0].wall_time(), 1700000000);
  EXPECT_EQ(events[1].wall_time(), 1700000001.5);
  EXPECT_EQ(events[1].step(), 3);
  ASSERT_EQ(events[1].summary().value_size(), 2);
  EXPECT_EQ(events[1].summary().value(0).tag(), "loss");
  EXPECT_EQ(events[1].summary().value(0).simple_value(), 0.25);
  // Another run in the same second does not take its place.
  ASSERT_OK_AND_ASSIGN(const auto other, EventFile::Create(folder_, time, "host"));
  EXPECT_EQ(other->path(), absl::StrCat(folder_, "/events.out.tfevents.1700000001.host"));
}

TEST_F(EventFileTest, ErrorsSayWhatCannotBeWritten) {
  const std::string nowhere = folder_ + "/none";
  EXPECT_THAT(
      EventFile::Create(nowhere, absl::UnixEpoch(), "h"),
      StatusIs(absl::StatusCode::kInternal,
               HasSubstr("cannot write " + nowhere + "/events.out.tfevents.0.h")));
  std::ofstream(folder_ + "/file") << "text";
  EXPECT_THAT(
      TensorBoardWriter::CheckFolder(folder_ + "/file/folder"),
      StatusIs(absl::StatusCode::kInvalidArgument,
               HasSubstr("--tensorboard: cannot make " + folder_ + "/file/folder")));
  EXPECT_OK(TensorBoardWriter::CheckFolder(folder_ + "/made/here"));
}

// Of one worker, whose step took a second, half of it exposed.
StepRecord Step(int rank, int64_t step, double loss, int64_t samples = 10) {
  StepRecord record;
  record.set_rank(rank);
  record.set_step(step);
  record.set_samples(samples);
  record.set_loss(loss);
  record.set_start_ns(step * 1000000000);
  record.set_total_ns(1000000000);
  record.set_exposed_ns(rank == 0 ? 500000000 : 0);
  return record;
}

JobSpec Job() {
  JobSpec spec;
  spec.set_workers(2);
  spec.set_steps(4);
  spec.mutable_arm()->set_name("ring");
  spec.mutable_experiment()->mutable_training()->set_seed(7);
  spec.mutable_experiment()->mutable_training()->set_evaluation_interval(2);
  return spec;
}

class TensorBoardWriterTest : public EventFileTest {
 protected:
  void Report(TensorBoardWriter* writer, const std::vector<StepRecord>& steps) {
    RecordBatch batch;
    for (const StepRecord& step : steps) *batch.add_steps() = step;
    writer->Reported(Member(), batch);
  }

  // Of the only file of the run, but for its first.
  std::vector<tensorboard::Event> Events() const {
    std::vector<tensorboard::Event> events;
    int files = 0;
    for (const auto& entry :
         std::filesystem::directory_iterator(folder_ + "/ring-seed-7")) {
      events = Read(entry.path().string());
      EXPECT_TRUE(
          absl::StartsWith(entry.path().filename().string(), "events.out.tfevents."));
      ++files;
    }
    EXPECT_EQ(files, 1);
    if (!events.empty()) events.erase(events.begin());
    return events;
  }

  static std::map<std::string, float> Scalars(const tensorboard::Event& event) {
    std::map<std::string, float> scalars;
    for (const auto& value : event.summary().value()) {
      scalars[value.tag()] = value.simple_value();
    }
    return scalars;
  }
};

TEST_F(TensorBoardWriterTest, AStepIsWrittenOnceAllWorkersHaveMadeIt) {
  TensorBoardWriter writer(folder_);
  writer.Begin(Job());
  Report(&writer, {Step(0, 0, 2), Step(0, 1, 1)});
  EXPECT_TRUE(Events().empty());
  Report(&writer, {Step(1, 0, 4)});
  ASSERT_EQ(Events().size(), 1U);  // It is there while the run goes on.
  Report(&writer, {Step(1, 1, 2)});
  writer.End();
  EXPECT_OK(writer.status());
  const std::vector<tensorboard::Event> events = Events();
  ASSERT_EQ(events.size(), 2U);
  EXPECT_EQ(events[0].step(), 1);
  EXPECT_THAT(Scalars(events[0]),
              UnorderedElementsAre(Pair("loss", 3), Pair("samples_per_second", 20),
                                   Pair("exposed_share", 0.25)));
  EXPECT_EQ(events[1].step(), 2);
  EXPECT_EQ(Scalars(events[1])["loss"], 1.5);
  EXPECT_NEAR(events[1].wall_time() - events[0].wall_time(), 1, 1e-3);
}

TEST_F(TensorBoardWriterTest, AStepThatAWorkerHasLeftOutIsTheOthers) {
  TensorBoardWriter writer(folder_);
  writer.Begin(Job());
  // As the late worker of a round with spares; and one that had no samples.
  Report(&writer, {Step(0, 0, 2), Step(0, 1, 5), Step(0, 2, 1)});
  Report(&writer, {Step(1, 0, 4), Step(1, 2, std::nan(""), 0)});
  writer.End();
  const std::vector<tensorboard::Event> events = Events();
  ASSERT_EQ(events.size(), 3U);
  EXPECT_EQ(Scalars(events[1])["loss"], 5);
  EXPECT_EQ(Scalars(events[2])["loss"], 1);
}

TEST_F(TensorBoardWriterTest, StepsThatASlowWorkerNeverReachesAreWrittenInTheEnd) {
  TensorBoardWriter writer(folder_);
  writer.Begin(Job());
  Report(&writer, {Step(0, 0, 2), Step(0, 1, 5), Step(0, 2, 1), Step(1, 0, 4)});
  EXPECT_EQ(Events().size(), 1U);
  writer.End();
  const std::vector<tensorboard::Event> events = Events();
  ASSERT_EQ(events.size(), 3U);
  EXPECT_EQ(events[2].step(), 3);
  // As the result table has it: 40 samples in 3 seconds.
  EXPECT_THAT(Scalars(events[2]),
              UnorderedElementsAre(Pair("loss", 1), Pair("samples_per_second", 40.0f / 3),
                                   Pair("exposed_share", 0.5)));
}

TEST_F(TensorBoardWriterTest, EvaluationsStandWhereTheirStepsEnded) {
  TensorBoardWriter writer(folder_);
  writer.Begin(Job());
  for (int step = 0; step < 4; ++step) {
    Report(&writer, {Step(0, step, 1)});
    Report(&writer, {Step(1, step, 1)});
  }
  RecordBatch batch;
  EvaluationRecord& evaluation = *batch.add_evaluations();
  evaluation.set_step(2);
  evaluation.set_accuracy(0.75);
  evaluation.set_loss(0.5);
  *batch.add_evaluations() = evaluation;
  batch.mutable_evaluations(1)->set_time_ns(2500000000);
  writer.Reported(Member(), batch);
  const std::vector<tensorboard::Event> events = Events();
  ASSERT_EQ(events.size(), 6U);
  EXPECT_EQ(events[4].step(), 2);
  EXPECT_THAT(Scalars(events[4]),
              UnorderedElementsAre(Pair("accuracy", 0.75), Pair("test_loss", 0.5)));
  EXPECT_NEAR(events[4].wall_time(), events[1].wall_time(), 1e-6);
  EXPECT_NEAR(events[5].wall_time(), events[1].wall_time() + 0.5, 1e-6);
}

TEST_F(TensorBoardWriterTest, WhereComputeIsEmulatedThereIsNoLoss) {
  JobSpec spec = Job();
  spec.mutable_experiment()->mutable_compute()->mutable_emulated();
  TensorBoardWriter writer(folder_);
  writer.Begin(spec);
  Report(&writer, {Step(0, 0, std::nan(""))});
  Report(&writer, {Step(1, 0, std::nan(""))});
  ASSERT_EQ(Events().size(), 1U);
  EXPECT_EQ(Scalars(Events()[0]).count("loss"), 0U);
}

TEST_F(TensorBoardWriterTest, AnErrorIsKept) {
  TensorBoardWriter writer(folder_);
  std::ofstream(folder_ + "/ring-seed-7") << "in the way";
  writer.Begin(Job());
  Report(&writer, {Step(0, 0, 1)});
  writer.End();
  EXPECT_THAT(writer.status(),
              StatusIs(absl::StatusCode::kInternal, HasSubstr("cannot make " + folder_)));
}

}  // namespace
}  // namespace psring
