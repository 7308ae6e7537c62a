#include "experiments/report/settings_table.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "experiments/config_text.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/message.h"
#include "google/protobuf/text_format.h"

namespace psring {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;
using google::protobuf::TextFormat;

// Values by path, in the order of the fields.
using Settings = std::vector<std::pair<std::string, std::string>>;

// Every field that is set; of an empty message, that it is there.
void Flatten(const Message& message, const std::string& path, Settings* settings) {
  const Reflection& reflection = *message.GetReflection();
  std::vector<const FieldDescriptor*> fields;
  reflection.ListFields(message, &fields);
  if (fields.empty()) settings->emplace_back(path, "yes");
  for (const FieldDescriptor* const field : fields) {
    const std::string name =
        path.empty() ? field->name() : absl::StrCat(path, ".", field->name());
    const bool is_message = field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE;
    if (is_message && !field->is_repeated()) {
      Flatten(reflection.GetMessage(message, field), name, settings);
      continue;
    }
    std::string values;
    const int count = field->is_repeated() ? reflection.FieldSize(message, field) : 1;
    for (int i = 0; i < count; ++i) {
      std::string value;
      if (is_message) {
        value = OnOneLine(reflection.GetRepeatedMessage(message, field, i));
      } else {
        TextFormat::PrintFieldValueToString(message, field, field->is_repeated() ? i : -1,
                                            &value);
      }
      absl::StrAppend(&values, i == 0 ? "" : ", ", value);
    }
    settings->emplace_back(name, values);
  }
}

Settings SettingsOf(const JobSpec& spec) {
  // The experiment's optimizer and buckets are the arm's, where it has its own.
  Arm arm = spec.arm();
  arm.clear_name();
  arm.clear_optimizer();
  arm.clear_buckets();
  const Hosts hosts = arm.cluster().hosts();
  const bool own_hosts = arm.cluster().has_hosts();
  arm.clear_cluster();
  Settings settings = {{"architecture", arm.has_parameter_server() ? "servers"
                                        : arm.has_ring()           ? "ring"
                                                                   : "local"},
                       {"workers", absl::StrCat(spec.workers())},
                       {"servers", absl::StrCat(spec.servers())}};
  Flatten(arm, "", &settings);
  const Experiment& experiment = spec.experiment();
  Flatten(experiment.training().optimizer(), "optimizer", &settings);
  Flatten(experiment.buckets(), "buckets", &settings);
  if (own_hosts) {
    Flatten(hosts, "hosts", &settings);
  } else if (experiment.cluster().has_hosts()) {
    Flatten(experiment.cluster().hosts(), "hosts", &settings);
  }
  return settings;
}

}  // namespace

ResultRows DifferentSettings(const std::vector<JobSpec>& specs) {
  ResultRows table = {.header = {""}, .rows = {}};
  std::vector<std::string> paths;  // Of all arms, in the order of their first mention.
  std::vector<std::map<std::string, std::string>> arms;
  for (const JobSpec& spec : specs) {
    const std::string& name = spec.arm().name();
    if (std::find(table.header.begin(), table.header.end(), name) != table.header.end()) {
      continue;
    }
    table.header.push_back(name);
    auto& values = arms.emplace_back();
    for (auto& [path, value] : SettingsOf(spec)) {
      if (std::find(paths.begin(), paths.end(), path) == paths.end()) {
        paths.push_back(path);
      }
      values[path] = value;
    }
  }
  for (const std::string& path : paths) {
    std::vector<std::string> row = {path};
    for (const auto& values : arms) {
      const auto value = values.find(path);
      row.push_back(value == values.end() ? "-" : value->second);
    }
    if (std::set<std::string>(row.begin() + 1, row.end()).size() > 1) {
      table.rows.push_back(std::move(row));
    }
  }
  return table;
}

}  // namespace psring
