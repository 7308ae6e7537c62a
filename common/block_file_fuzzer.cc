// Input: 0 and a file, or anything else and how the bytes of a good file are changed.
#include <stdlib.h>

#include <cstddef>
#include <cstdint>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/block_file.h"
#include "common/fuzz_util.h"
#include "glog/logging.h"

namespace psring {
namespace {

constexpr auto kIgnored = [](int64_t) {};

std::string GoodFile() {
  std::string folder = "/tmp/block_file_fuzzer_XXXXXX";
  CHECK(mkdtemp(folder.data()) != nullptr);
  const std::string path = folder + "/good";
  const std::vector<float> floats = {1, 2, 3, 4, 5};
  CHECK(WriteBlockFile(path, "header", {floats, std::span(floats).first(2)}, kIgnored)
            .ok());
  std::ifstream file(path, std::ios::binary);
  std::string content(std::istreambuf_iterator<char>(file), {});
  CHECK(remove(path.c_str()) == 0 && remove(folder.c_str()) == 0);
  return content;
}

void CheckError(const absl::Status& status) {
  CHECK(absl::IsDataLoss(status)) << status;
  CHECK(IsOneLine(status.message())) << status;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  static const std::string good = GoodFile();
  std::string content;
  if (data[0] == 0) {
    content.assign(data + 1, data + size);
  } else {
    content = good;
    for (size_t i = 1; i < size && i <= content.size(); ++i) {
      content[i - 1] = static_cast<char>(content[i - 1] ^ data[i]);
    }
  }
  const MemoryFile memory(content);
  const absl::StatusOr<BlockFile> file = BlockFile::Open(memory.path());
  if (!file.ok()) {
    CheckError(file.status());
    return 0;
  }
  CHECK_EQ(file->sum().bytes, static_cast<int64_t>(content.size()));
  bool readable = true;
  for (int array = 0; array < file->arrays(); ++array) {
    std::vector<float> floats(file->count(array));
    const absl::Status read = file->Read(array, 0, floats);
    if (!read.ok()) CheckError(read);
    readable = readable && read.ok();
  }
  const absl::Status verified = file->Verify(kIgnored);
  if (!verified.ok()) CheckError(verified);
  CHECK(readable || !verified.ok());
  return 0;
}

}  // namespace psring
