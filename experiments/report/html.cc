#include "experiments/report/html.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"

namespace psring {
namespace {

std::string CellText(const nlohmann::ordered_json& value) {
  if (value.is_string()) return value.get<std::string>();
  if (value.is_number_float()) return absl::StrFormat("%.6g", value.get<double>());
  return value.dump();
}

}  // namespace

std::string Escape(absl::string_view text) {
  return absl::StrReplaceAll(
      text,
      {{"&", "&amp;"}, {"<", "&lt;"}, {">", "&gt;"}, {"\"", "&quot;"}, {"'", "&#39;"}});
}

std::string InScript(const nlohmann::ordered_json& json) {
  // Names may have any bytes: what is no UTF-8 is shown as such.
  return absl::StrReplaceAll(
      json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace),
      {{"<", "\\u003c"}});
}

std::string InScript(absl::string_view script) {
  return absl::StrReplaceAll(
      script,
      {{"</script", "<\\/script"}, {"</SCRIPT", "<\\/SCRIPT"}, {"<!--", "<\\!--"}});
}

std::string Paragraph(absl::string_view text) {
  return text.empty() ? "" : absl::StrCat("<p>", Escape(text), "</p>\n");
}

std::string TableHtml(const ResultRows& table) {
  std::string html = "<div class=\"wide\" tabindex=\"0\"><table>\n<thead><tr>";
  for (const std::string& cell : table.header) {
    absl::StrAppend(&html, "<th scope=\"col\">", Escape(cell), "</th>");
  }
  absl::StrAppend(&html, "</tr></thead>\n<tbody>\n");
  for (const auto& row : table.rows) {
    absl::StrAppend(&html, "<tr>");
    for (size_t i = 0; i < row.size(); ++i) {
      absl::StrAppend(&html, i == 0 ? "<th scope=\"row\">" : "<td>", Escape(row[i]),
                      i == 0 ? "</th>" : "</td>");
    }
    absl::StrAppend(&html, "</tr>\n");
  }
  absl::StrAppend(&html, "</tbody></table></div>\n");
  return html;
}

std::string TextBlock(absl::string_view text) {
  return text.empty() ? ""
                      : absl::StrCat("<pre class=\"wide\" tabindex=\"0\">", Escape(text),
                                     "</pre>\n");
}

std::string Section(absl::string_view title, absl::string_view id,
                    absl::string_view content) {
  if (content.empty()) return "";
  return absl::StrCat("<section id=\"", id, "\">\n<h2>", Escape(title), "</h2>\n",
                      content, "</section>\n");
}

std::string Subsection(absl::string_view title, absl::string_view content) {
  return content.empty() ? "" : absl::StrCat("<h3>", Escape(title), "</h3>\n", content);
}

std::string ChartHtml(const Chart& chart, absl::string_view id) {
  ResultRows table;
  for (const auto& [field, title] : chart.columns) table.header.push_back(title);
  for (const auto& row : chart.rows) {
    std::vector<std::string>& cells = table.rows.emplace_back();
    for (const auto& [field, title] : chart.columns) {
      cells.push_back(row.contains(field) ? CellText(row[field]) : "");
    }
  }
  return absl::StrCat("<figure><figcaption>", Escape(chart.title), "</figcaption>\n",
                      "<div class=\"chart\" id=\"", Escape(id),
                      "\" role=\"img\" aria-label=\"", Escape(chart.title), "\"></div>\n",
                      chart.note.empty() ? ""
                                         : absl::StrCat("<p class=\"note\">",
                                                        Escape(chart.note), "</p>\n"),
                      "<details><summary>data as a table</summary>\n", TableHtml(table),
                      "</details></figure>\n");
}

}  // namespace psring
