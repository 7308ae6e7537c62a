// The tensors of known models, as names and shapes alone: data that psring carries.
#ifndef PSRING_EXPERIMENTS_INVENTORY_H_
#define PSRING_EXPERIMENTS_INVENTORY_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "common/layout.h"
#include "experiments/config_text.h"
#include "proto/experiment.pb.h"

namespace psring {

// Those of experiments/inventories/, by name.
std::vector<std::string> InventoryNames();

// OK, or the first thing that is wrong with `model.inventory`, before defaults; `origins`
// tells where that stands.
absl::Status CheckInventory(const InventoryModel& model, const FieldOrigins& origins);

// Of checked settings, with defaults.
ParameterLayout InventoryLayout(const InventoryModel& model);

}  // namespace psring

#endif  // PSRING_EXPERIMENTS_INVENTORY_H_
