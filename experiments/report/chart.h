// A chart of the page: a Vega-Lite specification, and the same numbers as a table.
#ifndef PSRING_EXPERIMENTS_REPORT_CHART_H_
#define PSRING_EXPERIMENTS_REPORT_CHART_H_

#include <string>
#include <utility>
#include <vector>

#include "nlohmann/json.hpp"

namespace psring {

// Specifications compute nothing: a mark shows fields of its data set as they are, so
// that every number on the page was made here. Colours are the page's CSS variables, so
// that a chart is light or dark as the page is.
struct Chart {
  std::string title;
  std::string note = "";  // What is to be known to read it; may be empty.
  // Vega-Lite 5, as wide as its place on the page, with its data sets in "datasets".
  nlohmann::ordered_json spec;
  // The table: fields of the rows, with titles that have units.
  std::vector<std::pair<std::string, std::string>> columns;
  nlohmann::ordered_json rows;  // A list of objects.
};

// A specification without layers or encoding; `title` is for those who do not see it.
nlohmann::ordered_json EmptySpec(const std::string& title, int height);

// {"field": ..., "type": ..., "title": ...}. The three kinds of values that there are.
nlohmann::ordered_json Quantity(const std::string& field, const std::string& title);
nlohmann::ordered_json Name(const std::string& field);  // In the order of the data.
// Of arms, each with a colour of its own, that is the same in all charts.
nlohmann::ordered_json ArmColour(const std::string& field,
                                 const std::vector<std::string>& arms);
// Of other names, each with its CSS variable: {"forward", "--part-1"}.
nlohmann::ordered_json NamedColour(
    const std::string& field, const std::string& title,
    const std::vector<std::pair<std::string, std::string>>& colours);

// Fields with their titles, as what is shown when one points at a mark.
nlohmann::ordered_json Tooltip(
    const std::vector<std::pair<std::string, std::string>>& columns);

}  // namespace psring

#endif  // PSRING_EXPERIMENTS_REPORT_CHART_H_
