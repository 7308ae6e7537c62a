#include "experiments/explain/story.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "experiments/text.h"

namespace psring {
namespace {

constexpr size_t kColumns = 80;
// Of the values of a transfer: with these its line fits, however long the names.
constexpr size_t kValuesColumns = 20;
constexpr int64_t kFloatBytes = sizeof(float);

struct Bytes {
  int64_t out = 0;
  int64_t in = 0;
};

// Pieces in lines of at most kColumns, each line after `indent`.
std::string Lines(const std::vector<std::string>& pieces, absl::string_view indent) {
  std::string lines;
  std::string line(indent);
  for (const std::string& piece : pieces) {
    if (line.size() > indent.size() && line.size() + 1 + piece.size() > kColumns) {
      absl::StrAppend(&lines, line, "\n");
      line = std::string(indent);
    }
    absl::StrAppend(&line, line.size() > indent.size() ? " " : "", piece);
  }
  return absl::StrCat(lines, line, "\n");
}

std::string Wrapped(absl::string_view text, absl::string_view indent) {
  return Lines(absl::StrSplit(text, ' '), indent);
}

std::string Number(float value) { return absl::StrFormat("%.7g", value); }

// All of up to four values; of more, or of long ones, the first two or one and the last.
std::string Values(const std::vector<float>& values) {
  std::vector<std::string> texts;
  for (const float value : values) texts.push_back(Number(value));
  if (texts.size() <= 4) {
    const std::string all = absl::StrJoin(texts, " ");
    if (all.size() <= kValuesColumns || texts.size() <= 2) return all;
  }
  const std::string first_and_last = absl::StrCat(texts.front(), " .. ", texts.back());
  const std::string two_and_last =
      absl::StrCat(texts[0], " ", texts[1], " .. ", texts.back());
  const bool fits = texts.size() > 3 && two_and_last.size() <= kValuesColumns;
  return fits ? two_and_last : first_and_last;
}

std::string Elements(Range range) {
  if (range.count == 0) return "none";
  if (range.count == 1) return absl::StrCat(range.begin);
  return absl::StrCat(range.begin, "-", range.end() - 1);
}

// Which part of the values a range is, as a ring cuts them.
std::string Chunk(Range range, const Story& story) {
  if (range.count == story.count && !story.in_chunks) return "all";
  for (int chunk = 0; chunk < story.workers; ++chunk) {
    if (range == PartitionRange(story.count, story.workers, chunk)) {
      return absl::StrCat(chunk);
    }
  }
  return "part";
}

std::string Inputs(const Story& story) {
  // Of many elements the first; numbers have as many digits as there are ranks. Digits
  // come again after nine elements.
  const int64_t shown = std::min<int64_t>(story.count, story.workers <= 5 ? 9 : 7);
  std::vector<std::string> header = {"element"};
  for (int64_t i = 0; i < shown; ++i) header.push_back(absl::StrCat(i));
  if (shown < story.count) header.push_back("..");
  std::vector<std::vector<std::string>> rows;
  for (int rank = 0; rank < story.workers; ++rank) {
    std::vector<std::string>& row = rows.emplace_back();
    row.push_back(story.endpoints[rank]);
    for (int64_t i = 0; i < shown; ++i) row.push_back(Number(StoryInput(rank, i)));
  }
  return FormatTable(header, rows);
}

std::string Step(const Story& story, const StoryStep& step, size_t number) {
  std::vector<std::vector<std::string>> rows;
  for (const Transfer& transfer : step.transfers) {
    rows.push_back({absl::StrCat(story.endpoints[transfer.from], " -> ",
                                 story.endpoints[transfer.to]),
                    Chunk(transfer.range, story), Elements(transfer.range),
                    Values(transfer.sent),
                    transfer.then.empty() ? "held" : Values(transfer.then)});
  }
  return absl::StrCat(
      absl::StrFormat("Step %d of %d: %s\n\n", number, story.steps.size(), step.title),
      FormatTable({"link", "chunk", "element", "sent", "then there"}, rows));
}

std::string BytesSoFar(const Story& story, const std::vector<Bytes>& bytes) {
  std::vector<std::string> pieces = {"bytes so far, out/in:"};
  for (size_t i = 0; i < bytes.size(); ++i) {
    pieces.push_back(absl::StrCat(story.endpoints[i], ": ", bytes[i].out, "/",
                                  bytes[i].in, i + 1 < bytes.size() ? "," : ""));
  }
  return Lines(pieces, "  ");
}

// Measured as everywhere in psring: the larger direction of the busiest endpoint, divided
// by its mean over the workers.
std::string Busiest(const Story& story, const std::vector<Bytes>& bytes) {
  const auto larger = [](const Bytes& b) { return std::max(b.out, b.in); };
  const auto busiest = std::max_element(
      bytes.begin(), bytes.end(),
      [&](const Bytes& a, const Bytes& b) { return larger(a) < larger(b); });
  int64_t of_workers = 0;
  for (int rank = 0; rank < story.workers; ++rank) of_workers += larger(bytes[rank]);
  const double mean = static_cast<double>(of_workers) / story.workers;
  const auto is_busiest = [&](const Bytes& b) { return larger(b) == larger(*busiest); };
  const bool all = std::all_of(bytes.begin(), bytes.end(), is_busiest);
  return Wrapped(
      absl::StrFormat(
          "Busiest: %s, with %d bytes one way; the workers' mean is %.4g. Hot-spot "
          "factor: %.2f.",
          all ? "everyone alike" : story.endpoints[busiest - bytes.begin()],
          larger(*busiest), mean,
          mean == 0 ? 1.0 : static_cast<double>(larger(*busiest)) / mean),
      "");
}

}  // namespace

float StoryInput(int rank, int64_t element) {
  int64_t place = 1;
  for (int i = 0; i < rank; ++i) place *= 10;
  return static_cast<float>(place * (1 + element % 9));
}

std::vector<int> StoryTerms(float sum) {
  std::vector<int> ranks;
  auto places = static_cast<int64_t>(sum);
  for (int rank = 0; places > 0; ++rank, places /= 10) {
    if (places % 10 != 0) ranks.push_back(rank);
  }
  return ranks;
}

std::string CountOfElements(int64_t count) {
  return absl::StrCat(count, count == 1 ? " element" : " elements");
}

std::string Tell(const Story& story) {
  std::string text = absl::StrCat(Wrapped(story.title, ""), "\n");
  for (const std::string& paragraph : story.introduction) {
    absl::StrAppend(&text, Wrapped(paragraph, ""));
  }
  absl::StrAppend(&text, "\n", Inputs(story), "\n");
  std::vector<Bytes> bytes(story.endpoints.size());
  for (size_t i = 0; i < story.steps.size(); ++i) {
    const StoryStep& step = story.steps[i];
    for (const Transfer& transfer : step.transfers) {
      bytes[transfer.from].out += transfer.range.count * kFloatBytes;
      bytes[transfer.to].in += transfer.range.count * kFloatBytes;
    }
    absl::StrAppend(&text, Step(story, step, i + 1), "\n", BytesSoFar(story, bytes));
    for (const std::string& note : step.notes)
      absl::StrAppend(&text, Wrapped(note, "  "));
    absl::StrAppend(&text, "\n");
  }
  return absl::StrCat(text, Busiest(story, bytes));
}

}  // namespace psring
