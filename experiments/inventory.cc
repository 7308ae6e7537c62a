#include "experiments/inventory.h"

#include <algorithm>
#include <cstdint>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "experiments/inventory_texts.h"
#include "glog/logging.h"
#include "google/protobuf/text_format.h"

namespace psring {
namespace {

const InventoryText* Find(const std::string& name) {
  for (const InventoryText* entry = kInventoryTexts; entry->name != nullptr; ++entry) {
    if (entry->name == name) return entry;
  }
  return nullptr;
}

std::vector<int64_t> Divided(const Inventory::TensorShape& tensor, int64_t divisor) {
  if (divisor == 1) return {tensor.shape().begin(), tensor.shape().end()};
  int64_t count = 1;
  for (const int64_t size : tensor.shape()) count *= size;
  return {std::max<int64_t>(1, count / divisor)};
}

}  // namespace

std::vector<std::string> InventoryNames() {
  std::vector<std::string> names;
  for (const InventoryText* entry = kInventoryTexts; entry->name != nullptr; ++entry) {
    names.emplace_back(entry->name);
  }
  return names;
}

absl::Status CheckInventory(const InventoryModel& model, const FieldOrigins& origins) {
  const std::string path = "model.inventory";
  if (Find(model.name()) == nullptr) {
    return origins.Error(path + ".name",
                         model.name().empty()
                             ? "missing"
                             : absl::StrCat("is '", absl::CHexEscape(model.name()), "'"),
                         absl::StrJoin(InventoryNames(), ", "));
  }
  if (origins.Has(path + ".divisor") && model.divisor() < 1) {
    return origins.Error(path + ".divisor", absl::StrCat("is ", model.divisor()),
                         "at least 1");
  }
  return absl::OkStatus();
}

ParameterLayout InventoryLayout(const InventoryModel& model) {
  const InventoryText* const entry = Find(model.name());
  CHECK(entry != nullptr) << model.name();
  CHECK_GE(model.divisor(), 1);
  Inventory inventory;
  CHECK(google::protobuf::TextFormat::ParseFromString(entry->text, &inventory))
      << model.name();
  ParameterLayout layout;
  for (const Inventory::Block& block : inventory.blocks()) {
    const int64_t repeat = block.has_repeat() ? block.repeat() : 1;
    for (int64_t i = block.first(); i < block.first() + repeat; ++i) {
      for (const Inventory::TensorShape& tensor : block.tensors()) {
        layout.Add(absl::StrReplaceAll(tensor.name(), {{"{}", absl::StrCat(i)}}),
                   Divided(tensor, model.divisor()));
      }
    }
  }
  return layout;
}

}  // namespace psring
