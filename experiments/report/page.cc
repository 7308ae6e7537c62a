#include "experiments/report/page.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "experiments/compute_config.h"
#include "experiments/config.h"
#include "experiments/hosts/link_tables.h"
#include "experiments/memory_table.h"
#include "experiments/report/charts.h"
#include "experiments/report/html.h"
#include "experiments/report/settings_table.h"
#include "experiments/result_table.h"

namespace psring {
namespace {

std::string List(const std::vector<std::string>& lines) {
  if (lines.empty()) return "";
  std::string html = "<ul>\n";
  for (const std::string& line : lines) {
    absl::StrAppend(&html, "<li>", Escape(line), "</li>\n");
  }
  return html + "</ul>\n";
}

std::string Definitions(const std::vector<std::pair<std::string, std::string>>& items) {
  std::string html = "<dl>\n";
  for (const auto& [name, value] : items) {
    absl::StrAppend(&html, "<dt>", Escape(name), "</dt><dd>", Escape(value), "</dd>\n");
  }
  return html + "</dl>\n";
}

// The page as it grows, and the charts on it.
class PageWriter {
 public:
  explicit PageWriter(const PageData& data) : data_(data) {
    for (const ArmRuns& arm : data.all) names_.push_back(arm.first().name);
  }

  std::string Body() {
    // One after the other: charts are numbered as they come.
    std::string html = Head();
    absl::StrAppend(&html, Section("Comparison", "comparison", Comparison()));
    absl::StrAppend(&html, Section("Who sends what to whom", "traffic", Traffic()));
    absl::StrAppend(&html, Section("Training", "training", Training()));
    absl::StrAppend(&html, Section("Where the time went", "time", Time()));
    absl::StrAppend(&html,
                    Section("Staleness and contributions", "staleness", Contributions()));
    absl::StrAppend(&html, Section("Bytes, counted and by formula", "bytes", Bytes()));
    absl::StrAppend(&html, Section("One step, bucket by bucket", "overlap", Overlap()));
    absl::StrAppend(&html, Section("Certificates", "certificates", Certificates()));
    absl::StrAppend(&html, Section("Warnings and errors", "events", List(data_.events)));
    absl::StrAppend(
        &html, Section("Configuration and machine", "configuration", Configuration()));
    return html;
  }

  const PageCharts& charts() const { return charts_; }

 private:
  std::string Head() const {
    const ReportVerdict& verdict = data_.verdict;
    const char* const colour = verdict.trust == Trust::kYes  ? "yes"
                               : verdict.trust == Trust::kNo ? "no"
                                                             : "care";
    return absl::StrCat(
        "<header>\n<h1>", Escape(data_.run.experiment.name()),
        "</h1>\n<p class=\"about\">Parameter servers and ring all-reduce, compared by "
        "psring",
        data_.started.empty() ? "" : absl::StrCat("; begun ", Escape(data_.started)),
        "; compute: ", Escape(DescribeCompute(data_.run.experiment.compute())),
        "</p>\n</header>\n<section class=\"verdict\" id=\"verdict\">\n<p "
        "class=\"winner\">",
        Escape(verdict.winner), "</p>\n", verdict.why.empty() ? "" : "<h2>Why?</h2>\n",
        List(verdict.why), "<h2>Is it to be believed? <span class=\"", colour, "\">",
        Escape(ToString(verdict.trust)), "</span></h2>\n", List(verdict.reasons),
        "</section>\n");
  }

  std::string Comparison() const {
    if (data_.ended.empty()) {
      return Paragraph("No arm has come to its end: there is nothing to compare.");
    }
    const ResultRows settings = DifferentSettings(data_.run.specs);
    return absl::StrCat(TableHtml(ArmRows(data_.run.experiment, data_.ended)),
                        Subsection("In what the arms were set differently",
                                   settings.rows.empty() ? "" : TableHtml(settings)));
  }

  std::string Traffic() {
    if (data_.pictures.empty()) {
      return Paragraph("No process has reported bytes to or from another one.");
    }
    double most = 0;
    for (const TrafficPicture& picture : data_.pictures) {
      most = std::max(most, picture.links[picture.hottest].bytes());
    }
    std::vector<std::optional<Chart>> charts;
    for (const TrafficPicture& picture : data_.pictures) {
      charts.push_back(TrafficChart(picture, most));
    }
    return absl::StrCat(
        Paragraph("Circles are workers (w), squares servers (s). With servers every "
                  "process has one link, here the line to the middle; in a ring each "
                  "worker sends to the next one. Lines are as wide as the payload of a "
                  "step, in the busier direction, on one scale."),
        charts_.Add(charts),
        Subsection("The busiest link of each arm", TextBlock(HotSpotTable(data_.ended))));
  }

  std::string Training() {
    const bool learns =
        std::any_of(data_.all.begin(), data_.all.end(),
                    [](const ArmRuns& arm) { return arm.first().learns; });
    if (!learns) {
      return Paragraph("Gradients were made up: there is neither loss nor accuracy.");
    }
    std::string html =
        charts_.AddAll(CurveCharts("training loss", false, data_.losses, names_));
    if (html.empty()) html = Paragraph("No losses have been recorded.");
    const std::string accuracy =
        charts_.AddAll(CurveCharts("test accuracy", true, data_.accuracies, names_));
    return absl::StrCat(
        html, accuracy.empty()
                  ? Paragraph("No arm was evaluated more than once "
                              "(training.evaluation_interval): accuracy has no curve.")
                  : accuracy);
  }

  std::string Time() {
    const std::string html =
        charts_.Add({StepPartsChart(data_.all), ExposedCausesChart(data_.all)});
    return absl::StrCat(
        html.empty() ? Paragraph("No step has been recorded.") : html,
        data_.run.unfinished.empty()
            ? ""
            : Paragraph("Of runs that did not come to their end the causes are not "
                        "known: it takes the records of all workers."));
  }

  std::string Contributions() {
    std::vector<ArmRuns> servers;
    std::vector<std::string> fresh;
    std::vector<std::string> alike;
    std::vector<std::optional<Chart>> charts;
    for (const ArmRuns& arm : data_.all) {
      if (arm.first().servers == 0) continue;
      servers.push_back(arm);
      charts.push_back(StalenessHistogram(arm, names_));
      if (!charts.back()) fresh.push_back(arm.first().name);
      if (ContributeAlike(arm)) alike.push_back(arm.first().name);
    }
    if (servers.empty()) return Paragraph("No arm has servers: nothing can be stale.");
    return absl::StrCat(
        fresh.empty()
            ? ""
            : Paragraph(absl::StrCat(
                  "No contribution was stale in: ", absl::StrJoin(fresh, ", "), ".")),
        charts_.Add(charts), charts_.Add({ContributionsChart(servers)}, true));
  }

  std::string Bytes() {
    const ResultRows rows = TrafficRows(data_.ended);
    if (rows.rows.empty()) return Paragraph("No process has reported its bytes.");
    return absl::StrCat(charts_.Add({PayloadChart(data_.ended)}, true), TableHtml(rows),
                        Subsection("What the links of emulated hosts carried",
                                   TextBlock(LinkAuditTable(data_.ended))));
  }

  std::string Overlap() {
    std::vector<std::optional<Chart>> charts;
    for (const ExchangeLine& line : data_.exchanges) {
      charts.push_back(ExchangeChart(line));
    }
    const std::string html = charts_.Add(charts);
    return html.empty() ? Paragraph("No bucket was exchanged.") : html;
  }

  std::string Certificates() const {
    ResultRows table = {.header = {"certificate", "verdict", "of", "why"}, .rows = {}};
    if (!data_.ended.empty()) {
      for (const CertificateLine& line : CertificateLines(data_.ended)) {
        table.rows.push_back({line.what, ToString(line.verdict), line.of, line.why});
      }
    }
    std::vector<std::string> expected;
    for (const ExpectationResult& result : data_.run.expectations) {
      expected.push_back(absl::StrCat(ToString(result.verdict), ": ", result.text));
    }
    std::string html = table.rows.empty()
                           ? Paragraph("No arm has come to its end.")
                           : absl::StrReplaceAll(TableHtml(table),
                                                 {{"<table>", "<table class=\"text\">"}});
    return absl::StrCat(html,
                        data_.ended.empty()
                            ? ""
                            : Subsection("Memory, in bytes, at most",
                                         TextBlock(MemoryTable(data_.ended))),
                        Subsection("What the experiment expects", List(expected)));
  }

  std::string Configuration() const {
    return absl::StrCat(
        Paragraph("With the text below in a file, this runs it again:"),
        TextBlock(
            absl::StrCat("psring compare ", data_.run.experiment.name(), ".textproto")),
        Subsection("The machine", Definitions(data_.run.environment)),
        "<details open><summary>the configuration, with all defaults</summary>\n",
        TextBlock(PrintExperiment(data_.run.experiment)), "</details>\n");
  }

  const PageData& data_;
  std::vector<std::string> names_;
  PageCharts charts_;
};

}  // namespace

std::string PageHtml(const PageData& data, const PageAssets& assets) {
  PageWriter writer(data);
  const std::string body = writer.Body();
  return WholePage(data.run.experiment.name(), body,
                   "Made by psring from the run's database.", writer.charts(), assets);
}

}  // namespace psring
