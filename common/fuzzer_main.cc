// Runs a fuzz target on the files that its arguments name: its seeds, as an ordinary
// test.
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <iostream>
#include <iterator>
#include <string>

#include "glog/logging.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

int main(int argc, char** argv) {
  CHECK_GT(argc, 1) << "no seeds";
  for (int i = 1; i < argc; ++i) {
    std::ifstream file(argv[i], std::ios::binary);
    CHECK(file.is_open()) << argv[i];
    const std::string seed(std::istreambuf_iterator<char>(file), {});
    std::cout << argv[i] << ": " << seed.size() << " bytes" << std::endl;
    LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t*>(seed.data()), seed.size());
  }
}
