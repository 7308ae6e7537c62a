// The models that figures are drawn for. Pure.
#ifndef PSRING_EXPERIMENTS_FIGURES_FIGURE_MODEL_H_
#define PSRING_EXPERIMENTS_FIGURES_FIGURE_MODEL_H_

#include <string>
#include <vector>

#include "common/layout.h"
#include "proto/coordinator.pb.h"

namespace psring {

// "fashion_mnist", which is the network of experiments/configs/fashion_mnist.textproto,
// and the known models (experiments/inventory.h).
std::vector<std::string> FigureModels();

// Requires one of FigureModels.
ParameterLayout FigureLayout(const std::string& model);

// A job of the model with so many workers, without servers yet, and with an arm that has
// no mode yet.
JobSpec FigureJob(const ParameterLayout& layout, int workers);

}  // namespace psring

#endif  // PSRING_EXPERIMENTS_FIGURES_FIGURE_MODEL_H_
