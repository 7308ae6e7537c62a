// What the kernel and its tools print about links and processors, as numbers. Pure, but
// for ReadProcessorTimes.
#ifndef PSRING_EXPERIMENTS_HOSTS_KERNEL_STATISTICS_H_
#define PSRING_EXPERIMENTS_HOSTS_KERNEL_STATISTICS_H_

#include <cstdint>
#include <map>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace psring {

// Errors are Internal and say what was not understood.

// Of the root queue of an interface, in the direction in which it sends.
struct QueueStatistics {
  int64_t bytes = 0;    // That have left it, with the headers of every segment.
  int64_t packets = 0;  // The same; segments, not the larger pieces that are handed over.
  int64_t dropped = 0;
  int64_t backlog_bytes = 0;  // That wait at this moment.
};
// By interface: what `tc -s -j qdisc` prints.
absl::StatusOr<std::map<std::string, QueueStatistics>> ParseQueues(
    absl::string_view json);

// Of an interface; here a piece of up to 64 KiB that is handed over is one packet with
// one header.
struct InterfaceStatistics {
  int64_t received_bytes = 0;
  int64_t received_packets = 0;
  int64_t sent_bytes = 0;
  int64_t sent_packets = 0;
};
// By interface: /proc/net/dev.
absl::StatusOr<std::map<std::string, InterfaceStatistics>> ParseInterfaces(
    absl::string_view text);

// TCP segments that were sent again: /proc/net/snmp.
absl::StatusOr<int64_t> ParseResentSegments(absl::string_view text);

// Of all processors together since the start of the machine: /proc/stat, whose times are
// in ticks of 10 ms.
struct ProcessorTimes {
  absl::Duration idle = absl::ZeroDuration();
  absl::Duration total = absl::ZeroDuration();
};
absl::StatusOr<ProcessorTimes> ParseProcessorTimes(absl::string_view text);
// As they are now.
absl::StatusOr<ProcessorTimes> ReadProcessorTimes();

}  // namespace psring

#endif  // PSRING_EXPERIMENTS_HOSTS_KERNEL_STATISTICS_H_
