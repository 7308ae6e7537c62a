#include "experiments/config_text.h"

#include <algorithm>
#include <cctype>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "common/status_macros.h"
#include "google/protobuf/io/tokenizer.h"
#include "google/protobuf/text_format.h"

namespace psring {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;
using google::protobuf::TextFormat;

std::string Join(const std::string& path, absl::string_view name) {
  return path.empty() ? std::string(name) : absl::StrCat(path, ".", name);
}

std::string Element(const std::string& path, int index) {
  return absl::StrCat(path, "[", index, "]");
}

// One line without control characters, whatever the file or an override contains.
std::string OneLine(absl::string_view text) {
  std::string line;
  for (const char& c : text) {
    const absl::string_view one(&c, 1);
    absl::StrAppend(&line, absl::ascii_iscntrl(c) ? absl::CHexEscape(one) : one);
  }
  return line;
}

absl::Status FieldError(absl::string_view origin, absl::string_view path,
                        absl::string_view problem, absl::string_view allowed) {
  return absl::InvalidArgumentError(
      OneLine(absl::StrCat(origin, ": ", path, path.empty() ? "" : ": ", problem,
                           allowed.empty() ? "" : "; allowed: ", allowed)));
}

// What a field takes, in words.
std::string Values(const FieldDescriptor& field) {
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT64:
      return "a whole number";
    case FieldDescriptor::CPPTYPE_UINT64:
      return "a whole number of at least 0";
    case FieldDescriptor::CPPTYPE_FLOAT:
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return "a number";
    case FieldDescriptor::CPPTYPE_BOOL:
      return "true or false";
    case FieldDescriptor::CPPTYPE_STRING:
      return "a text in quotes";
    case FieldDescriptor::CPPTYPE_ENUM:
      return ValueNames(*field.enum_type());
    case FieldDescriptor::CPPTYPE_MESSAGE:
      return absl::StrCat("{ } with ", FieldNames(*field.message_type()));
    default:
      return std::string(field.cpp_type_name());
  }
}

// A message that the parser had begun and not finished when it met an error.
struct OpenMessage {
  std::string path;
  const Descriptor* type;
};

using OriginOfLine = std::function<std::string(int line)>;  // Lines count from 1.

// Notes the origin of each field that was read into the message. Appends the messages
// inside it that have a place in the tree (begun) and no location (finished), outer ones
// first.
void NoteOrigins(const Message& message, const TextFormat::ParseInfoTree& tree,
                 const std::string& path, const OriginOfLine& origin,
                 FieldOrigins* origins, std::vector<OpenMessage>* open) {
  const Descriptor& type = *message.GetDescriptor();
  const Reflection& reflection = *message.GetReflection();
  for (int f = 0; f < type.field_count(); ++f) {
    const FieldDescriptor* field = type.field(f);
    const bool repeated = field->is_repeated();
    const std::string field_path = Join(path, field->name());
    const int count = repeated ? reflection.FieldSize(message, field) : 1;
    for (int i = 0; i < count; ++i) {
      const int index = repeated ? i : -1;
      const std::string element_path = repeated ? Element(field_path, i) : field_path;
      const int line = tree.GetLocation(field, index).line;
      if (line >= 0) {
        origins->Set(element_path, origin(line + 1));
        if (i == 0) origins->Set(field_path, origin(line + 1));
      }
      if (field->cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE) continue;
      const auto* nested_tree = tree.GetTreeForNested(field, index);
      if (nested_tree == nullptr) continue;
      const Message& nested = repeated ? reflection.GetRepeatedMessage(message, field, i)
                                       : reflection.GetMessage(message, field);
      if (line < 0) open->push_back({element_path, nested.GetDescriptor()});
      NoteOrigins(nested, *nested_tree, element_path, origin, origins, open);
    }
  }
}

// Keeps the first error of a parse.
class ErrorKeeper : public google::protobuf::io::ErrorCollector {
 public:
  void AddError(int line, int column, const std::string& message) override {
    if (!message_.empty()) return;
    line_ = line;
    column_ = column;
    message_ = message;
  }

  int line() const { return line_; }  // From 0, as is the column.
  int column() const { return column_; }
  const std::string& message() const { return message_; }

 private:
  int line_ = 0;
  int column_ = 0;
  std::string message_;
};

// The part of the text before a position as the parser counts it: a tab reaches to the
// next multiple of 8.
absl::string_view TextBefore(absl::string_view text, int line, int column) {
  size_t at = 0;
  for (; line > 0; --line) at = text.find('\n', at) + 1;
  for (int reached = 0; at < text.size() && reached < column; ++at) {
    reached += text[at] == '\t' ? 8 - reached % 8 : 1;
  }
  return text.substr(0, at);
}

// The name of the field whose value the text breaks off before: "a: 1 steps: " -> steps.
std::string LastFieldName(absl::string_view text) {
  const size_t colon = text.rfind(':');
  if (colon == absl::string_view::npos) return "";
  const auto in_name = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
  };
  size_t begin = colon;
  while (begin > 0 && in_name(text[begin - 1])) --begin;
  return std::string(text.substr(begin, colon - begin));
}

// Reads text into `message`, which is empty and is the field `path` of the message that
// the origins are about.
//
// The parser reports an English sentence and a position. Its own records tell which
// messages it was inside of, and so the path; the sentence is taken apart only as far as
// to know a field that does not exist from a value that does not fit.
absl::Status Parse(const std::string& text, const std::string& path,
                   const OriginOfLine& origin, Message* message, FieldOrigins* origins) {
  TextFormat::Parser parser;
  TextFormat::ParseInfoTree tree;
  ErrorKeeper error;
  parser.RecordErrorsTo(&error);
  parser.WriteLocationsTo(&tree);
  const bool parsed = parser.ParseFromString(text, message);
  std::vector<OpenMessage> open = {{path, message->GetDescriptor()}};
  NoteOrigins(*message, tree, path, origin, origins, &open);
  if (parsed) return absl::OkStatus();

  const std::string where = origin(error.line() + 1);
  const std::string& sentence = error.message();
  // Message type "psring.Training" has no field named "stpes".
  const std::vector<std::string> quoted = absl::StrSplit(sentence, '"');
  if (absl::StrContains(sentence, "\" has no field named \"") && quoted.size() == 5) {
    const auto inside =
        std::find_if(open.rbegin(), open.rend(), [&](const OpenMessage& candidate) {
          return candidate.type->full_name() == quoted[1];
        });
    if (inside != open.rend()) {
      return FieldError(where, Join(inside->path, quoted[3]), "no such field",
                        FieldNames(*inside->type));
    }
  }
  for (const absl::string_view prefix :
       {"Expected integer", "Expected double", "Expected string", "Integer out of range",
        "Unknown enumeration value", "Invalid value for boolean field"}) {
    if (!absl::StartsWith(sentence, prefix)) continue;
    const std::string name =
        LastFieldName(TextBefore(text, error.line(), error.column()));
    const auto inside =
        std::find_if(open.rbegin(), open.rend(), [&](const OpenMessage& candidate) {
          return candidate.type->FindFieldByName(name) != nullptr;
        });
    if (inside == open.rend()) break;
    return FieldError(where, Join(inside->path, name),
                      absl::StrCat("not a value of this field (", sentence, ")"),
                      Values(*inside->type->FindFieldByName(name)));
  }
  return FieldError(where, open.back().path, sentence, "");
}

// One step of an override's path: a name, and an index where it ends in [INDEX].
struct PathStep {
  std::string name;
  std::optional<int> index;
};

std::optional<PathStep> ParseStep(absl::string_view text) {
  const size_t bracket = text.find('[');
  PathStep step = {.name = std::string(text.substr(0, bracket)), .index = {}};
  if (bracket == absl::string_view::npos) return step;
  int index = 0;
  if (!absl::EndsWith(text, "]") ||
      !absl::SimpleAtoi(text.substr(bracket + 1, text.size() - bracket - 2), &index)) {
    return std::nullopt;
  }
  step.index = index;
  return step;
}

// Replaces one field of `container`, whose own path is `path`.
absl::Status SetField(const FieldDescriptor& field, const std::string& value,
                      const std::string& path, const std::string& origin,
                      Message* container, FieldOrigins* origins) {
  const bool bare_string = field.cpp_type() == FieldDescriptor::CPPTYPE_STRING &&
                           !field.is_repeated() && !absl::StartsWith(value, "\"");
  const std::string text =
      absl::StrCat(field.name(), ": ",
                   bare_string ? absl::StrCat("\"", absl::CEscape(value), "\"") : value);
  const std::string field_path = Join(path, field.name());
  const std::unique_ptr<Message> fresh(container->New());
  origins->Forget(field_path);
  RETURN_IF_ERROR(Parse(
      text, path, [&](int) { return origin; }, fresh.get(), origins));
  origins->Set(field_path, origin);

  std::vector<const FieldDescriptor*> read;
  fresh->GetReflection()->ListFields(*fresh, &read);
  if (std::ranges::any_of(read, [&](const auto* other) { return other != &field; })) {
    return FieldError(origin, field_path, "more than one value", Values(field));
  }
  // Merging alone would append to a list, and would leave a number that is to be 0.
  container->GetReflection()->ClearField(container, &field);
  container->MergeFrom(*fresh);
  return absl::OkStatus();
}

}  // namespace

FieldOrigins::FieldOrigins(std::string file) : file_(std::move(file)) {}

void FieldOrigins::Set(const std::string& path, const std::string& origin) {
  origins_[path] = origin;
}

void FieldOrigins::Forget(const std::string& path) {
  std::erase_if(origins_, [&](const auto& entry) {
    return entry.first == path || absl::StartsWith(entry.first, path + ".") ||
           absl::StartsWith(entry.first, path + "[");
  });
}

absl::Status FieldOrigins::Error(const std::string& path, absl::string_view problem,
                                 absl::string_view allowed) const {
  std::string known = path;
  while (!known.empty() && !Has(known)) {
    const size_t end = known.find_last_of(".[");
    known.resize(end == std::string::npos ? 0 : end);
  }
  return FieldError(known.empty() ? absl::StrCat(file_, ":1") : origins_.at(known), path,
                    problem, allowed);
}

absl::Status ReadText(const std::string& text, Message* message, FieldOrigins* origins) {
  return Parse(
      text, "", [&](int line) { return absl::StrCat(origins->file(), ":", line); },
      message, origins);
}

absl::Status ApplyOverride(const std::string& assignment, Message* message,
                           FieldOrigins* origins) {
  const std::string origin = absl::StrCat("--set ", assignment);
  const size_t equals = assignment.find('=');
  if (equals == std::string::npos) {
    return FieldError(origin, "", "no '='", "field.path=value");
  }
  const std::vector<std::string> steps =
      absl::StrSplit(assignment.substr(0, equals), '.');
  Message* container = message;
  std::string path;
  for (size_t i = 0;; ++i) {
    const std::string here = Join(path, steps[i]);
    const std::optional<PathStep> step = ParseStep(steps[i]);
    if (!step.has_value()) {
      return FieldError(origin, here, "not a name and an index", "name, name[0], ...");
    }
    const Reflection& reflection = *container->GetReflection();
    const FieldDescriptor* field =
        container->GetDescriptor()->FindFieldByName(step->name);
    if (field == nullptr) {
      return FieldError(origin, here, "no such field",
                        FieldNames(*container->GetDescriptor()));
    }
    if (step->index.has_value() && !field->is_repeated()) {
      return FieldError(origin, here, "not a list", field->name());
    }
    if (i + 1 == steps.size()) {
      if (step->index.has_value()) {
        return FieldError(origin, here, "one element of a list",
                          absl::StrCat("the whole list, ", field->name(), "=[...]"));
      }
      return SetField(*field, assignment.substr(equals + 1), path, origin, container,
                      origins);
    }
    if (field->cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE) {
      return FieldError(origin, here, "has no fields",
                        absl::StrCat(field->name(), "=..."));
    }
    if (!field->is_repeated()) {
      container = reflection.MutableMessage(container, field);
    } else {
      const int size = reflection.FieldSize(*container, field);
      const int index = step->index.value_or(-1);
      if (index < 0 || index >= size) {
        return FieldError(origin, here,
                          absl::StrCat("not one of the ", size, " elements of this list"),
                          size == 0 ? absl::StrCat(field->name(), "=[...]")
                                    : absl::StrCat(Element(field->name(), 0), " to ",
                                                   Element(field->name(), size - 1)));
      }
      container = reflection.MutableRepeatedMessage(container, field, index);
    }
    path = here;
  }
}

std::string OnOneLine(const Message& message) {
  TextFormat::Printer printer;
  printer.SetSingleLineMode(true);
  std::string text;
  printer.PrintToString(message, &text);
  return std::string(absl::StripTrailingAsciiWhitespace(text));
}

std::string FieldNames(const Descriptor& type) {
  if (type.field_count() == 0) return "nothing";
  std::vector<std::string> names;
  for (int i = 0; i < type.field_count(); ++i) names.push_back(type.field(i)->name());
  return absl::StrJoin(names, ", ");
}

std::string MemberNames(const google::protobuf::OneofDescriptor& oneof) {
  std::vector<std::string> names;
  for (int i = 0; i < oneof.field_count(); ++i) names.push_back(oneof.field(i)->name());
  return absl::StrJoin(names, ", ");
}

std::string ValueNames(const google::protobuf::EnumDescriptor& type) {
  std::vector<std::string> names;
  for (int i = 0; i < type.value_count(); ++i) names.push_back(type.value(i)->name());
  return absl::StrJoin(names, ", ");
}

}  // namespace psring
