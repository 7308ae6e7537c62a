// AUTO's table: which algorithm is fastest for operations of which size, by transport and
// number of workers. Pure, but for the text that the build puts into the program.
#ifndef PSRING_EXPERIMENTS_ALGORITHM_TABLE_H_
#define PSRING_EXPERIMENTS_ALGORITHM_TABLE_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "experiments/config_text.h"
#include "google/protobuf/repeated_field.h"
#include "proto/experiment.pb.h"

namespace psring {

using AlgorithmChoices = google::protobuf::RepeatedPtrField<AlgorithmChoice>;

// OK, or the first thing that is wrong with rows as written at `path`
// ("arms[1].ring.choices"); `origins` tells where that stands.
absl::Status CheckChoices(const AlgorithmChoices& choices, const std::string& path,
                          const FieldOrigins& origins);

// Those of the transport and of the number of workers nearest to `workers`; of two that
// are equally near, the larger. Empty where the transport has none.
AlgorithmChoices ChoicesFor(const AlgorithmChoices& choices,
                            RingMode::Transport transport, int64_t workers);

// A checked table from its text; errors name `file` and the line.
absl::StatusOr<AlgorithmTable> ReadAlgorithmTable(const std::string& text,
                                                  const std::string& file);
// Text that reads back as the same table, with a row in each line.
std::string PrintAlgorithmTable(const AlgorithmTable& table);

// psring's own: experiments/algorithm_table.textproto as of the build.
AlgorithmTable MeasuredAlgorithms();

// Puts the rows of `measured` in the place of those that `table` has for the same
// transports and numbers of workers, and all in order.
void UpdateTable(const AlgorithmTable& measured, AlgorithmTable* table);

}  // namespace psring

#endif  // PSRING_EXPERIMENTS_ALGORITHM_TABLE_H_
