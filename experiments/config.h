// Experiments from their files, checked and complete, and the jobs that follow.
#ifndef PSRING_EXPERIMENTS_CONFIG_H_
#define PSRING_EXPERIMENTS_CONFIG_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "proto/coordinator.pb.h"
#include "proto/experiment.pb.h"

namespace psring {

// Reads an experiment in text format (proto/experiment.proto), applies the overrides in
// their order (experiments/config_text.h has their syntax), checks it, and fills in what
// was left out: data.fashion_mnist.directory, buckets.cap_bytes (1 MiB),
// buckets.first_cap_bytes (256 KiB, at most cap_bytes), buckets.overlap (true),
// training.seeds (1), training.micro_batches (1), model.mlp.branches (1), `real` compute,
// `sync` for a parameter-server arm without consistency, an fp32 wire for an arm that is
// not local, and the settings of optimizers and emulated hosts, of the experiment and of
// arms (experiments/optimizer_config.h, experiments/hosts/host_settings.h), and of rings
// (experiments/ring_config.h). Arms keep their own cluster; ResolveArm resolves it.
//
// Errors: NotFound, there is no such file; InvalidArgument, one line that names the file
// and line, or the override, the field, what is wrong with it and what is allowed.
absl::StatusOr<Experiment> LoadExperiment(const std::string& path,
                                          const std::vector<std::string>& overrides);

// Text that LoadExperiment reads back as the same experiment.
std::string PrintExperiment(const Experiment& experiment);

// What a loaded experiment can only be checked for once the data are known: a global
// batch larger than the training set, or more epochs than can be counted in steps. OK
// where it has no data. Errors are InvalidArgument and name the field, not the line.
absl::Status CheckAgainstData(const Experiment& experiment, int64_t train_count);

// The job of one arm of a loaded experiment: workers, servers and steps resolved, with
// epochs turned into steps by the number of training samples, who has a part of an
// epoch's last step where there are samples; the arm's optimizer in place of the
// experiment's where it has one. The job's name is "EXPERIMENT/ARM". Errors as
// CheckAgainstData.
absl::StatusOr<JobSpec> ResolveArm(const Experiment& experiment, const Arm& arm,
                                   int64_t train_count);

// The jobs that an arm's job stands for, one for each of its training.seeds, in order:
// each has its own seed and no other. Where there are several, so are their names:
// "EXPERIMENT/ARM/seed-7".
std::vector<JobSpec> RunsOf(const JobSpec& arm);

}  // namespace psring

#endif  // PSRING_EXPERIMENTS_CONFIG_H_
