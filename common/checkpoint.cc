#include "common/checkpoint.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <limits>
#include <optional>
#include <system_error>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "common/status_macros.h"
#include "glog/logging.h"

namespace psring {
namespace {

namespace fs = std::filesystem;

constexpr absl::string_view kStep = "step-";
constexpr char kManifest[] = "manifest";

std::string ManifestPath(const std::string& folder) {
  return absl::StrCat(folder, "/", kManifest);
}

absl::Status Damaged(const std::string& path, absl::string_view what) {
  return absl::DataLossError(absl::StrCat(path, " is damaged: ", what));
}

// The step that a folder is of, if it is one of a checkpoint.
std::optional<int64_t> StepOf(const fs::path& folder) {
  const std::string name = folder.filename().string();
  int64_t step = 0;
  if (!absl::StartsWith(name, kStep) ||
      !absl::SimpleAtoi(name.substr(kStep.size()), &step) ||
      name != absl::StrCat(kStep, step)) {
    return std::nullopt;
  }
  return step;
}

std::vector<int64_t> StepFolders(const std::string& arm_folder) {
  std::vector<int64_t> steps;
  std::error_code error;
  for (fs::directory_iterator entry(arm_folder, error), end; !error && entry != end;
       entry.increment(error)) {
    if (const auto step = StepOf(entry->path())) steps.push_back(*step);
  }
  std::sort(steps.begin(), steps.end());
  return steps;
}

int64_t ElementsOf(const JobSpec& spec) {
  int64_t elements = 0;
  for (const TensorSpec& tensor : spec.tensors()) {
    int64_t count = 1;
    for (const int64_t length : tensor.shape()) count *= length;
    elements += count;
  }
  return elements;
}

// Those that writers make: "checkpoints/ARM/step-4", or "checkpoints/ARM/seed-1/step-4".
constexpr int kFoldersMade = 3;

// Puts the names of `folder` and of the folders that it is in on the disk.
absl::Status SyncFoldersAbove(const std::string& folder) {
  fs::path path(folder);
  for (int made = 0; made < kFoldersMade && path.has_relative_path(); ++made) {
    path = path.parent_path();
    const std::string above = path.empty() ? "." : path.string();
    const int descriptor = open(above.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    // One that may not be read is of others, and was there before.
    if (descriptor < 0 && errno == EACCES && made > 0) break;
    // EINVAL: of a file system where folders cannot be synced.
    const bool synced = descriptor >= 0 && (fsync(descriptor) == 0 || errno == EINVAL);
    const int error = errno;
    if (descriptor >= 0) close(descriptor);
    if (!synced) {
      return absl::InternalError(
          absl::StrCat("cannot write ", above, ": ", strerror(error)));
    }
  }
  return absl::OkStatus();
}

}  // namespace

std::string CheckpointFolder(const std::string& arm_folder, int64_t step) {
  return absl::StrCat(arm_folder, "/", kStep, step);
}

absl::StatusOr<CheckpointPart> WriteCheckpointPart(
    const std::string& folder, const std::string& writer, int64_t step,
    const std::vector<CheckpointedSlice>& slices,
    absl::FunctionRef<void(int64_t bytes)> wrote) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) {
    return absl::InternalError(
        absl::StrCat("cannot make the folder ", folder, ": ", error.message()));
  }
  CheckpointPartHeader header;
  header.set_writer(writer);
  header.set_step(step);
  if (!slices.empty()) {
    header.set_state_arrays(static_cast<int32_t>(slices.front().state.size()));
  }
  std::vector<std::span<const float>> arrays;
  for (const CheckpointedSlice& slice : slices) {
    CHECK_EQ(static_cast<int64_t>(slice.parameters.size()), slice.range.count);
    CHECK_EQ(static_cast<int>(slice.state.size()), header.state_arrays());
    CheckpointSlice& described = *header.add_slices();
    described.set_begin(slice.range.begin);
    described.set_count(slice.range.count);
    described.set_version(slice.version);
    arrays.push_back(slice.parameters);
    arrays.insert(arrays.end(), slice.state.begin(), slice.state.end());
  }
  CheckpointPart part;
  part.set_name(absl::StrReplaceAll(writer, {{" ", "-"}}));
  ASSIGN_OR_RETURN(const BlockFileSum sum,
                   WriteBlockFile(absl::StrCat(folder, "/", part.name()),
                                  header.SerializeAsString(), arrays, wrote));
  part.set_bytes(sum.bytes);
  part.set_crc(sum.crc);
  return part;
}

absl::Status WriteCheckpointManifest(const std::string& folder,
                                     const CheckpointManifest& manifest) {
  // Until the folders are on the disk that lead to it, an older one is all there is.
  RETURN_IF_ERROR(SyncFoldersAbove(folder));
  return WriteBlockFile(ManifestPath(folder), manifest.SerializeAsString(), {},
                        [](int64_t) {})
      .status();
}

std::vector<int64_t> CheckpointSteps(const std::string& arm_folder) {
  std::vector<int64_t> steps = StepFolders(arm_folder);
  std::erase_if(steps, [&](int64_t step) {
    std::error_code error;
    return !fs::exists(ManifestPath(CheckpointFolder(arm_folder, step)), error);
  });
  return steps;
}

absl::Status RemoveOldCheckpoints(const std::string& arm_folder, int64_t keep) {
  CHECK_GT(keep, 0);
  std::vector<int64_t> kept = CheckpointSteps(arm_folder);
  if (kept.empty()) return absl::OkStatus();
  if (std::ssize(kept) > keep) kept.erase(kept.begin(), kept.end() - keep);
  for (const int64_t step : StepFolders(arm_folder)) {
    if (step > kept.back() || std::binary_search(kept.begin(), kept.end(), step)) {
      continue;
    }
    // The manifest first: what is cut off here is no checkpoint any more.
    const std::string folder = CheckpointFolder(arm_folder, step);
    std::error_code error;
    fs::remove(ManifestPath(folder), error);
    if (!error) fs::remove_all(folder, error);
    if (error) {
      return absl::InternalError(
          absl::StrCat("cannot remove ", folder, ": ", error.message()));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<Checkpoint> Checkpoint::Open(const std::string& folder) {
  const std::string path = ManifestPath(folder);
  ASSIGN_OR_RETURN(const BlockFile file, BlockFile::Open(path));
  RETURN_IF_ERROR(file.Verify([](int64_t) {}));
  Checkpoint checkpoint;
  CheckpointManifest& manifest = checkpoint.manifest_;
  if (!manifest.ParseFromString(file.header())) {
    return Damaged(path, "it is no manifest of a checkpoint");
  }
  for (const CheckpointPart& part : manifest.parts()) {
    RETURN_IF_ERROR(checkpoint.AddPart(folder, part));
  }
  RETURN_IF_ERROR(checkpoint.SortSlices(folder));
  return checkpoint;
}

absl::Status Checkpoint::AddPart(const std::string& folder, const CheckpointPart& part) {
  const std::string path = absl::StrCat(folder, "/", part.name());
  absl::StatusOr<BlockFile> file = BlockFile::Open(path);
  if (absl::IsNotFound(file.status())) {
    return absl::DataLossError(
        absl::StrCat(path, " is missing, and the checkpoint's manifest names it"));
  }
  RETURN_IF_ERROR(file.status());
  if (file->sum() != BlockFileSum{.bytes = part.bytes(), .crc = part.crc()}) {
    return Damaged(path, "it is not the file that the checkpoint's manifest names");
  }
  CheckpointPartHeader header;
  if (!header.ParseFromString(file->header()) || header.step() != manifest_.step()) {
    return Damaged(path, "it is no part of this checkpoint");
  }
  if (header.state_arrays() < 0 ||
      header.slices_size() * (int64_t{1} + header.state_arrays()) != file->arrays() ||
      (!slices_.empty() && header.slices_size() > 0 &&
       header.state_arrays() != state_arrays_)) {
    return Damaged(path, "its slices are not its arrays");
  }
  const auto index = static_cast<int>(parts_.size());
  const int arrays = file->arrays() / std::max(header.slices_size(), 1);  // Of a slice.
  for (int slice = 0; slice < header.slices_size(); ++slice) {
    const CheckpointSlice& described = header.slices(slice);
    for (int array = slice * arrays; array < (slice + 1) * arrays; ++array) {
      if (file->count(array) != described.count()) {
        return Damaged(path, "its slices are not its arrays");
      }
    }
    lowest_version_ = slices_.empty() ? described.version()
                                      : std::min(lowest_version_, described.version());
    state_arrays_ = header.state_arrays();
    slices_.push_back({.range = {.begin = described.begin(), .count = described.count()},
                       .part = index,
                       .first_array = slice * arrays});
  }
  parts_.push_back(*std::move(file));
  return absl::OkStatus();
}

absl::Status Checkpoint::SortSlices(const std::string& folder) {
  std::erase_if(slices_, [](const Slice& slice) { return slice.range.count == 0; });
  std::sort(slices_.begin(), slices_.end(),
            [](const Slice& a, const Slice& b) { return a.range.begin < b.range.begin; });
  int64_t end = 0;
  for (const Slice& slice : slices_) {
    if (slice.range.begin != end) break;
    end = slice.range.end();
  }
  const int64_t elements = ElementsOf(manifest_.spec());
  if (end == elements && (slices_.empty() || slices_.back().range.end() == end)) {
    return absl::OkStatus();
  }
  return Damaged(ManifestPath(folder),
                 absl::StrCat("its parts do not have every one of ", elements,
                              " elements once: see element ", end));
}

absl::Status Checkpoint::Verify() const {
  for (const BlockFile& part : parts_) RETURN_IF_ERROR(part.Verify([](int64_t) {}));
  return absl::OkStatus();
}

absl::Status Checkpoint::ReadParameters(int64_t begin, std::span<float> to) const {
  return Read(0, begin, to);
}

absl::Status Checkpoint::ReadState(int array, int64_t begin, std::span<float> to) const {
  CHECK(array >= 0 && array < state_arrays_);
  return Read(1 + array, begin, to);
}

absl::Status Checkpoint::Read(int array, int64_t begin, std::span<float> to) const {
  if (to.empty()) return absl::OkStatus();
  // The slice that `begin` is in.
  auto slice = std::upper_bound(
      slices_.begin(), slices_.end(), begin,
      [](int64_t element, const Slice& s) { return element < s.range.begin; });
  CHECK(slice != slices_.begin());
  --slice;
  while (!to.empty()) {
    CHECK(slice != slices_.end());
    const int64_t count =
        std::min(slice->range.end() - begin, static_cast<int64_t>(to.size()));
    CHECK_GT(count, 0);
    RETURN_IF_ERROR(parts_[slice->part].Read(
        slice->first_array + array, begin - slice->range.begin, to.first(count)));
    begin += count;
    to = to.subspan(count);
    ++slice;
  }
  return absl::OkStatus();
}

}  // namespace psring
