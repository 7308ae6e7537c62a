// Numbers and tables for people to read.
#ifndef PSRING_EXPERIMENTS_TEXT_H_
#define PSRING_EXPERIMENTS_TEXT_H_

#include <cstdint>
#include <string>
#include <vector>

namespace psring {

// 1234567 -> "1,234,567".
std::string WithThousands(int64_t number);

// Rows of cells under a header, in columns as wide as needed: the first is aligned to
// the left, the others to the right. Rows may be shorter than the header. Each line is
// indented by two spaces and has no blanks at its end.
std::string FormatTable(const std::vector<std::string>& header,
                        const std::vector<std::vector<std::string>>& rows);

}  // namespace psring

#endif  // PSRING_EXPERIMENTS_TEXT_H_
