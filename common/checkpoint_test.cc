#include "common/checkpoint.h"

#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace psring {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr auto kIgnored = [](int64_t) {};
constexpr int64_t kElements = 20;

// What array `array` has at an element, 0 being the parameters.
float ValueAt(int array, int64_t element) {
  return static_cast<float>(100 * array + element);
}

class CheckpointTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = absl::StrCat(testing::TempDir(), "/checkpoint_XXXXXX");
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    arm_ = pattern;
    for (int array = 0; array < 3; ++array) {
      for (int64_t e = 0; e < kElements; ++e) flat_[array].push_back(ValueAt(array, e));
    }
  }
  void TearDown() override { fs::remove_all(arm_); }

  std::string Folder(int64_t step) const { return CheckpointFolder(arm_, step); }

  // The ranges of one writer, with two arrays of state.
  absl::StatusOr<CheckpointPart> WritePart(int64_t step, const std::string& writer,
                                           const std::vector<Range>& ranges,
                                           int64_t version = 7, int states = 2) {
    std::vector<CheckpointedSlice> slices;
    for (const Range& range : ranges) {
      CheckpointedSlice& slice = slices.emplace_back();
      slice.range = range;
      slice.version = version + static_cast<int64_t>(slices.size());
      slice.parameters = std::span(flat_[0]).subspan(range.begin, range.count);
      for (int array = 1; array <= states; ++array) {
        slice.state.push_back(std::span(flat_[array]).subspan(range.begin, range.count));
      }
    }
    return WriteCheckpointPart(Folder(step), writer, step, slices, kIgnored);
  }

  static CheckpointManifest ManifestOf(int64_t step,
                                       const std::vector<CheckpointPart>& parts) {
    CheckpointManifest manifest;
    TensorSpec& tensor = *manifest.mutable_spec()->add_tensors();
    tensor.add_shape(4);
    tensor.add_shape(5);
    manifest.set_step(step);
    manifest.add_next_steps(step);
    for (const CheckpointPart& part : parts) *manifest.add_parts() = part;
    return manifest;
  }

  // Two writers, whose slices interleave; some have no elements.
  void WriteWhole(int64_t step) {
    ASSERT_OK_AND_ASSIGN(
        const CheckpointPart first,
        WritePart(step, "server 0", {{.begin = 0, .count = 3}, {.begin = 9, .count = 6}},
                  /*version=*/7));
    ASSERT_OK_AND_ASSIGN(const CheckpointPart second,
                         WritePart(step, "server 1",
                                   {{.begin = 15, .count = 5},
                                    {.begin = 3, .count = 6},
                                    {.begin = 3, .count = 0}},
                                   /*version=*/6));
    ASSERT_OK(WriteCheckpointManifest(Folder(step), ManifestOf(step, {first, second})));
  }

  static void Flip(const std::string& path, int64_t from_end) {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(-from_end, std::ios::end);
    const char byte = static_cast<char>(file.get() ^ 1);
    file.seekp(-from_end, std::ios::end);
    file.put(byte);
  }

  std::string arm_;
  std::vector<float> flat_[3];
};

TEST_F(CheckpointTest, AnyPartIsReadWhoeverWroteIt) {
  WriteWhole(120);
  ASSERT_OK_AND_ASSIGN(const Checkpoint checkpoint, Checkpoint::Open(Folder(120)));
  EXPECT_OK(checkpoint.Verify());
  EXPECT_EQ(checkpoint.manifest().step(), 120);
  EXPECT_EQ(checkpoint.state_arrays(), 2);
  EXPECT_EQ(checkpoint.lowest_version(), 7);
  for (int64_t begin = 0; begin < kElements; ++begin) {
    for (int64_t count = 0; begin + count <= kElements; ++count) {
      std::vector<float> read(count);
      ASSERT_OK(checkpoint.ReadParameters(begin, read));
      for (int64_t i = 0; i < count; ++i) ASSERT_EQ(read[i], ValueAt(0, begin + i));
      for (int array = 0; array < 2; ++array) {
        ASSERT_OK(checkpoint.ReadState(array, begin, read));
        for (int64_t i = 0; i < count; ++i) {
          ASSERT_EQ(read[i], ValueAt(1 + array, begin + i));
        }
      }
    }
  }
}

TEST_F(CheckpointTest, IsThereOnceItsManifestIs) {
  EXPECT_THAT(CheckpointSteps(arm_ + "/none"), IsEmpty());
  WriteWhole(9);
  WriteWhole(10);
  ASSERT_OK(WritePart(11, "server 0", {{.begin = 0, .count = 3}}));
  fs::create_directory(arm_ + "/step-x");
  fs::create_directory(arm_ + "/step-012");
  std::ofstream(arm_ + "/step-012/manifest") << "?";
  EXPECT_THAT(CheckpointSteps(arm_), ElementsAre(9, 10));
  EXPECT_THAT(Checkpoint::Open(Folder(11)),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("step-11/manifest")));
}

TEST_F(CheckpointTest, OldOnesGoAndTheNewestStay) {
  for (const int64_t step : {10, 20, 30}) WriteWhole(step);
  ASSERT_OK(WritePart(15, "server 0", {{.begin = 0, .count = 3}}));
  ASSERT_OK(WritePart(40, "server 0", {{.begin = 0, .count = 3}}));
  ASSERT_OK(RemoveOldCheckpoints(arm_, 2));
  EXPECT_THAT(CheckpointSteps(arm_), ElementsAre(20, 30));
  EXPECT_FALSE(fs::exists(Folder(10)));
  EXPECT_FALSE(fs::exists(Folder(15)));
  EXPECT_TRUE(fs::exists(Folder(40)));  // Somebody is still writing it.
  ASSERT_OK(RemoveOldCheckpoints(arm_, 2));
  EXPECT_THAT(CheckpointSteps(arm_), ElementsAre(20, 30));
}

TEST_F(CheckpointTest, NamesTheFileThatIsDamagedTruncatedOrMissing) {
  const auto verdict = [&] {
    const auto checkpoint = Checkpoint::Open(Folder(5));
    return checkpoint.ok() ? checkpoint->Verify() : checkpoint.status();
  };
  for (const std::string part : {"server-0", "server-1", "manifest"}) {
    const std::string path = absl::StrCat(Folder(5), "/", part);
    WriteWhole(5);
    ASSERT_OK(verdict());
    Flip(path, 20);
    EXPECT_THAT(verdict(),
                StatusIs(absl::StatusCode::kDataLoss, HasSubstr(path + " is damaged: ")));
    WriteWhole(5);
    fs::resize_file(path, fs::file_size(path) - 1);
    EXPECT_THAT(verdict(), StatusIs(absl::StatusCode::kDataLoss,
                                    HasSubstr(path + " is truncated: ")));
  }
  WriteWhole(5);
  fs::remove(Folder(5) + "/server-1");
  EXPECT_THAT(verdict(),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr("server-1 is missing")));
}

// A part that is whole, but of another checkpoint.
TEST_F(CheckpointTest, PartsAreThoseOfTheManifest) {
  WriteWhole(5);
  flat_[0][0] = 99;
  WriteWhole(6);
  fs::copy_file(Folder(6) + "/server-0", Folder(5) + "/server-0",
                fs::copy_options::overwrite_existing);
  EXPECT_THAT(Checkpoint::Open(Folder(5)),
              StatusIs(absl::StatusCode::kDataLoss,
                       AllOf(HasSubstr("step-5/server-0"),
                             HasSubstr("not the file that the checkpoint's manifest"))));
}

TEST_F(CheckpointTest, HasEveryElementOnce) {
  const auto open = [&](const std::vector<Range>& ranges, int states = 2) {
    const auto all = WritePart(3, "server 0", ranges);
    const auto rest =
        WritePart(3, "server 1", {{.begin = 12, .count = 8}}, /*version=*/7, states);
    EXPECT_OK(WriteCheckpointManifest(Folder(3), ManifestOf(3, {*all, *rest})));
    return Checkpoint::Open(Folder(3)).status();
  };
  EXPECT_OK(open({{.begin = 0, .count = 12}}));
  const auto misses = [](int element) {
    return StatusIs(
        absl::StatusCode::kDataLoss,
        AllOf(HasSubstr("step-3/manifest is damaged"),
              HasSubstr(absl::StrCat("20 elements once: see element ", element))));
  };
  EXPECT_THAT(open({{.begin = 0, .count = 11}}), misses(11));
  EXPECT_THAT(open({{.begin = 1, .count = 11}}), misses(0));
  EXPECT_THAT(open({{.begin = 0, .count = 13}}), misses(13));
  EXPECT_THAT(open({{.begin = 0, .count = 12}, {.begin = 5, .count = 2}}), misses(12));
  EXPECT_THAT(open({}), misses(0));
  EXPECT_THAT(open({{.begin = 0, .count = 12}}, /*states=*/1),
              StatusIs(absl::StatusCode::kDataLoss,
                       HasSubstr("server-1 is damaged: its slices are not its arrays")));
}

}  // namespace
}  // namespace psring
