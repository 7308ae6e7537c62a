// Numbers and tables for people to read.
#ifndef PSRING_EXPERIMENTS_TEXT_H_
#define PSRING_EXPERIMENTS_TEXT_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace psring {

// 1234567 -> "1,234,567".
std::string WithThousands(int64_t number);
// 0.1234 -> "12.3 %".
std::string RoughPercent(double share);

// "rank 3", "ranks 1, 2 and 3"; of more than `most` names the first ones, one fewer than
// that: "ranks 1, 2 and 7 more". `names` are not empty.
std::string Enumerate(const std::string& what, const std::vector<std::string>& names,
                      size_t most);

// A table of more rows leaves the screen with what comes after it: it is shortened.
inline constexpr size_t kMostRows = 24;

// Rows of cells under a header, in columns as wide as needed: the first is aligned to
// the left, the others to the right. Rows may be shorter than the header. Each line is
// indented by two spaces and has no blanks at its end.
std::string FormatTable(const std::vector<std::string>& header,
                        const std::vector<std::vector<std::string>>& rows);

}  // namespace psring

#endif  // PSRING_EXPERIMENTS_TEXT_H_
