#include "experiments/live/live_view.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "experiments/text.h"

namespace psring {
namespace {

constexpr char kReset[] = "\x1b[0m";
constexpr char kBold[] = "\x1b[1m";
constexpr char kRed[] = "\x1b[31m";
constexpr char kGreen[] = "\x1b[32m";
constexpr char kYellow[] = "\x1b[33m";
constexpr char kCyan[] = "\x1b[36m";

// A link is busy from this share of its capacity on, and full from that.
constexpr double kBusy = 0.8;
constexpr double kFull = 0.95;

constexpr int kRateColumns = 12;  // "999.9 Mbit/s"
constexpr int kMostNameColumns = 16;
constexpr int kLagColumns = 4;
// Below these many columns a row has the busier direction only, or no bar either.
constexpr int kTwoBars = 64;
constexpr int kOneBar = 40;

// Length of the escape sequence or character that begins at `from`, and its columns.
struct Glyph {
  size_t bytes = 1;
  int columns = 1;
};

Glyph GlyphAt(absl::string_view line, size_t from) {
  size_t end = from + 1;
  if (line[from] == '\x1b') {
    while (end < line.size() && line[end] != 'm') ++end;
    return {.bytes = std::min(end + 1, line.size()) - from, .columns = 0};
  }
  while (end < line.size() && (static_cast<unsigned char>(line[end]) & 0xC0) == 0x80) {
    ++end;
  }
  return {.bytes = end - from, .columns = 1};
}

// The first `columns` columns of it, with all its escape sequences.
std::string Cut(absl::string_view line, int columns) {
  std::string cut;
  int used = 0;
  for (size_t at = 0; at < line.size();) {
    const Glyph glyph = GlyphAt(line, at);
    if (used + glyph.columns <= columns) {
      absl::StrAppend(&cut, line.substr(at, glyph.bytes));
      used += glyph.columns;
    } else {
      used = columns;  // Nothing narrow comes after what was too wide.
    }
    at += glyph.bytes;
  }
  return cut;
}

std::string Left(absl::string_view text, int columns) {
  std::string cut = Cut(text, columns);
  cut.append(static_cast<size_t>(std::max(0, columns - ColumnsOf(cut))), ' ');
  return cut;
}

std::string Right(absl::string_view text, int columns) {
  const int missing = std::max(0, columns - ColumnsOf(text));
  return std::string(static_cast<size_t>(missing), ' ') + std::string(text);
}

std::string Rate(double bytes_s) {
  const double mbit_s = bytes_s * 8 / 1e6;
  if (mbit_s >= 10000) return absl::StrFormat("%.1f Gbit/s", mbit_s / 1000);
  if (mbit_s >= 1 || mbit_s == 0) return absl::StrFormat("%.1f Mbit/s", mbit_s);
  return absl::StrFormat("%.1f kbit/s", mbit_s * 1000);
}

std::string MinutesAndSeconds(double seconds) {
  const auto whole = static_cast<int64_t>(seconds);
  if (whole < 3600) return absl::StrFormat("%d:%02d", whole / 60, whole % 60);
  return absl::StrFormat("%d:%02d:%02d", whole / 3600, whole / 60 % 60, whole % 60);
}

// Draws one view.
class View {
 public:
  View(const LiveState& state, const Terminal& terminal)
      : state_(state),
        terminal_(terminal),
        columns_(std::max(1, terminal.columns - 1)),
        rows_(std::max(1, terminal.rows - 1)) {}

  std::vector<std::string> Lines() {
    if (rows_ < 3) {
      Add(ProgressLine(state_.arm, state_.steps, state_.progress));
      return lines_;
    }
    Add(Title());
    if (state_.progress.steps_done == 0) {
      Add("starting");
    } else {
      Add(Progress());
      Add(Figures());
    }
    AddRows();
    return lines_;
  }

 private:
  void Add(const std::string& line) { lines_.push_back(Cut(line, columns_)); }

  std::string Coloured(const char* colour, const std::string& text) const {
    return terminal_.colours ? absl::StrCat(colour, text, kReset) : text;
  }

  // `share` of `columns` cells, from 0 to 1.
  std::string Bar(double share, int columns) const {
    static constexpr const char* kEighths[] = {"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
    const double cells =
        std::clamp(std::isfinite(share) ? share : 0.0, 0.0, 1.0) * std::max(0, columns);
    std::string bar;
    if (terminal_.utf8) {
      const auto eighths = static_cast<int>(std::lround(cells * 8));
      for (int i = 0; i < eighths / 8; ++i) bar += "█";
      bar += kEighths[eighths % 8];
    } else {
      bar.assign(static_cast<size_t>(std::lround(cells)), '#');
    }
    return bar;
  }

  std::string Title() const {
    std::string title = state_.arm;
    // A name that is too long keeps its place among the arms in sight.
    if (state_.positions > 1) {
      const std::string place =
          absl::StrFormat("[%d of %d] ", state_.position, state_.positions);
      title = place + title;
    }
    return Coloured(kBold, title);
  }

  std::string Progress() const {
    const ArmProgress& progress = state_.progress;
    const int64_t made = progress.first_step + progress.steps_done;
    const double share = static_cast<double>(made) /
                         static_cast<double>(std::max<int64_t>(1, state_.steps));
    const std::string step =
        absl::StrCat("step ", WithThousands(made), " of ", WithThousands(state_.steps));
    const std::string left =
        absl::StrFormat(" %3.0f %%, %s left", std::min(1.0, share) * 100,
                        MinutesAndSeconds(SecondsLeft(state_.steps, progress)));
    const int bar = std::min(40, columns_ - ColumnsOf(step) - ColumnsOf(left) - 1);
    if (bar < 5) return absl::StrCat(step, ",", left);
    return absl::StrCat(step, " ", Coloured(kCyan, Left(Bar(share, bar), bar)), left);
  }

  std::string Figures() const {
    const std::string loss =
        state_.progress.loss ? absl::StrFormat("loss %.4f, ", *state_.progress.loss) : "";
    return absl::StrCat(loss, WithThousands(SamplesPerSecond(state_.progress)),
                        " samples/s");
  }

  // A link, the worker of that name, or both.
  struct Row {
    std::string name;
    const LiveLink* link = nullptr;
    const LiveWorker* worker = nullptr;

    double busiest() const {
      return link == nullptr ? 0 : std::max(link->out_bytes_s, link->in_bytes_s);
    }
    int64_t lag() const { return worker == nullptr ? 0 : worker->clock_lag.value_or(0); }
  };

  std::vector<Row> Rows() const {
    std::vector<Row> rows;
    for (const LiveLink& link : state_.links) {
      rows.push_back({.name = link.name, .link = &link});
    }
    for (const LiveWorker& worker : state_.workers) {
      const std::string name = absl::StrCat("worker ", worker.rank);
      // The link of a worker's host may be shared with a server.
      const auto same = std::find_if(rows.begin(), rows.end(),
                                     [&](const Row& row) { return row.name == name; });
      if (same != rows.end()) {
        same->worker = &worker;
      } else {
        rows.push_back({.name = name, .worker = &worker});
      }
    }
    return rows;
  }

  void AddRows() {
    std::vector<Row> rows = Rows();
    const auto room = static_cast<size_t>(rows_) - lines_.size();
    if (rows.empty() || room == 0) return;
    double scale = 0;
    for (const Row& row : rows) {
      scale = std::max(scale, row.busiest());
      name_columns_ =
          std::max(name_columns_, std::min(ColumnsOf(row.name), kMostNameColumns));
      has_lag_ |= row.worker != nullptr && row.worker->clock_lag.has_value();
    }
    const bool header = columns_ >= kOneBar && (rows.size() + 1 <= room || room > 3);
    size_t fit = room - (header ? 1 : 0);
    std::optional<size_t> hidden;
    if (rows.size() > fit) {
      if (fit > 1) {
        hidden = rows.size() - (fit - 1);
        --fit;
      }
      KeepBusiest(&rows, fit);
    }
    if (header) Add(Header());
    for (const Row& row : rows) Add(RowLine(row, scale));
    if (hidden) Add(absl::StrCat("and ", *hidden, " more that carry less"));
  }

  // In their order. Who lags is as interesting as what is busy only where rates are
  // alike.
  static void KeepBusiest(std::vector<Row>* rows, size_t count) {
    std::vector<size_t> order(rows->size());
    for (size_t i = 0; i < order.size(); ++i) order[i] = i;
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
      const Row& one = (*rows)[a];
      const Row& other = (*rows)[b];
      if (one.busiest() != other.busiest()) return one.busiest() > other.busiest();
      return one.lag() > other.lag();
    });
    order.resize(count);
    std::sort(order.begin(), order.end());
    std::vector<Row> kept;
    for (const size_t index : order) kept.push_back((*rows)[index]);
    *rows = std::move(kept);
  }

  // Columns of one bar; 0: there is no room for any.
  int BarColumns() const {
    const int lag = has_lag_ ? kLagColumns + 1 : 0;
    const int rest = columns_ - name_columns_ - lag;
    if (columns_ >= kTwoBars) return std::min(40, rest / 2 - kRateColumns - 2);
    if (columns_ >= kOneBar) return rest - kRateColumns - 2 - 4;
    return 0;
  }

  std::string Header() const {
    const int bar = BarColumns();
    std::string line = Left(state_.frames ? "link" : "payload", name_columns_);
    if (columns_ >= kTwoBars) {
      absl::StrAppend(&line, " ", Right("out", bar + kRateColumns + 1), " ",
                      Right("in", bar + kRateColumns + 1));
    } else {
      absl::StrAppend(&line, " ", Right("busier", 4 + bar + 1 + kRateColumns));
    }
    if (has_lag_) absl::StrAppend(&line, " ", Right("lag", kLagColumns));
    return line;
  }

  std::string Cells(double bytes_s, double capacity, double scale, int bar) const {
    const double full = capacity > 0 ? capacity : scale;
    const double share = full > 0 ? bytes_s / full : 0;
    // Without a capacity nobody knows what is busy.
    const char* const colour = capacity <= 0 || share < kBusy ? kGreen
                               : share < kFull                ? kYellow
                                                              : kRed;
    std::string cells;
    if (bar > 0) cells = Coloured(colour, Left(Bar(share, bar), bar)) + " ";
    return cells + Right(Rate(bytes_s), kRateColumns);
  }

  std::string RowLine(const Row& row, double scale) const {
    const int bar = BarColumns();
    std::string line = Left(row.name, name_columns_);
    static const LiveLink kNothing;
    const LiveLink& link = row.link == nullptr ? kNothing : *row.link;
    if (columns_ >= kTwoBars) {
      for (const bool out : {true, false}) {
        absl::StrAppend(&line, " ",
                        Cells(out ? link.out_bytes_s : link.in_bytes_s,
                              out ? link.out_capacity : link.in_capacity, scale, bar));
      }
    } else if (columns_ < kOneBar) {
      return absl::StrCat(line, " ", Rate(row.busiest()));
    } else {
      const bool out = link.out_bytes_s > link.in_bytes_s;
      absl::StrAppend(&line, " ", out ? "out " : "in  ",
                      Cells(out ? link.out_bytes_s : link.in_bytes_s,
                            out ? link.out_capacity : link.in_capacity, scale, bar));
    }
    if (row.worker == nullptr || !row.worker->clock_lag) return line;
    const std::string lag = Right(absl::StrCat(*row.worker->clock_lag), kLagColumns);
    return absl::StrCat(line, " ", row.lag() > 0 ? Coloured(kYellow, lag) : lag);
  }

  const LiveState& state_;
  const Terminal& terminal_;
  const int columns_;
  const int rows_;
  int name_columns_ = 0;
  bool has_lag_ = false;
  std::vector<std::string> lines_;
};

}  // namespace

std::vector<std::string> LiveView(const LiveState& state, const Terminal& terminal) {
  return View(state, terminal).Lines();
}

int ColumnsOf(absl::string_view line) {
  int columns = 0;
  for (size_t at = 0; at < line.size();) {
    const Glyph glyph = GlyphAt(line, at);
    columns += glyph.columns;
    at += glyph.bytes;
  }
  return columns;
}

}  // namespace psring
