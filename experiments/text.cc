#include "experiments/text.h"

#include <algorithm>
#include <cstddef>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"

namespace psring {
namespace {

// Columns on the screen: every byte of UTF-8 that does not continue a character.
size_t Width(absl::string_view text) {
  return std::count_if(text.begin(), text.end(),
                       [](char byte) { return (byte & 0xc0) != 0x80; });
}

std::string FormatRow(const std::vector<std::string>& cells,
                      const std::vector<size_t>& widths) {
  std::string line = "  ";
  for (size_t column = 0; column < cells.size(); ++column) {
    const std::string padding(widths[column] - Width(cells[column]), ' ');
    if (column == 0) {
      absl::StrAppend(&line, cells[column], padding);
    } else {
      absl::StrAppend(&line, "  ", padding, cells[column]);
    }
  }
  line.erase(line.find_last_not_of(' ') + 1);
  return absl::StrCat(line, "\n");
}

}  // namespace

std::string WithThousands(int64_t number) {
  std::string digits = absl::StrCat(number < 0 ? -number : number);
  for (int64_t position = static_cast<int64_t>(digits.size()) - 3; position > 0;
       position -= 3) {
    digits.insert(position, 1, ',');
  }
  return number < 0 ? absl::StrCat("-", digits) : digits;
}

std::string RoughPercent(double share) { return absl::StrFormat("%.1f %%", 100 * share); }

std::string Enumerate(const std::string& what, const std::vector<std::string>& names,
                      size_t most) {
  if (names.size() == 1) return absl::StrCat(what, " ", names.front());
  const size_t listed = names.size() > most ? most - 1 : names.size() - 1;
  const auto end = names.begin() + static_cast<std::ptrdiff_t>(listed);
  const std::string last =
      names.size() > most ? absl::StrCat(names.size() - listed, " more") : names.back();
  return absl::StrCat(what, "s ", absl::StrJoin(names.begin(), end, ", "), " and ", last);
}

std::string FormatTable(const std::vector<std::string>& header,
                        const std::vector<std::vector<std::string>>& rows) {
  std::vector<size_t> widths;
  for (const std::string& cell : header) widths.push_back(Width(cell));
  for (const auto& row : rows) {
    for (size_t column = 0; column < row.size(); ++column) {
      widths[column] = std::max(widths[column], Width(row[column]));
    }
  }
  std::string table = FormatRow(header, widths);
  for (const auto& row : rows) absl::StrAppend(&table, FormatRow(row, widths));
  return table;
}

}  // namespace psring
