// The files of experiments/inventories/, as the build puts them into the program.
#ifndef PSRING_EXPERIMENTS_INVENTORY_TEXTS_H_
#define PSRING_EXPERIMENTS_INVENTORY_TEXTS_H_

namespace psring {

struct InventoryText {
  const char* name;  // Of the file, without ".textproto".
  const char* text;  // An Inventory.
};

// By name; the last one's name is null.
extern const InventoryText kInventoryTexts[];

}  // namespace psring

#endif  // PSRING_EXPERIMENTS_INVENTORY_TEXTS_H_
