// Text as parts of an HTML page. Pure.
#ifndef PSRING_EXPERIMENTS_REPORT_HTML_H_
#define PSRING_EXPERIMENTS_REPORT_HTML_H_

#include <string>

#include "absl/strings/string_view.h"
#include "experiments/report/chart.h"
#include "experiments/result_table.h"

namespace psring {

// As the text of an element or the value of an attribute in quotes.
std::string Escape(absl::string_view text);
// JSON that cannot end the <script> that it stands in.
std::string InScript(const nlohmann::ordered_json& json);
// A script that cannot either: "</script" in one of its strings has a backslash more.
std::string InScript(absl::string_view script);

// "<p>text</p>", and "" for "".
std::string Paragraph(absl::string_view text);
// The first column is of headers, and stays where the others are scrolled.
std::string TableHtml(const ResultRows& table);
// Text whose columns are blanks; "" for "".
std::string TextBlock(absl::string_view text);

// With a heading; "" for no content. Titles are text, contents are HTML.
std::string Section(absl::string_view title, absl::string_view id,
                    absl::string_view content);
std::string Subsection(absl::string_view title, absl::string_view content);

// A place for the chart, which the page's script draws, with its data as a table.
std::string ChartHtml(const Chart& chart, absl::string_view id);

}  // namespace psring

#endif  // PSRING_EXPERIMENTS_REPORT_HTML_H_
