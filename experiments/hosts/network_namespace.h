// Network namespaces that are nothing but open descriptors: no names, no files, gone with
// the last descriptor and the last process inside, however these end.
#ifndef PSRING_EXPERIMENTS_HOSTS_NETWORK_NAMESPACE_H_
#define PSRING_EXPERIMENTS_HOSTS_NETWORK_NAMESPACE_H_

#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/tcp_socket.h"

namespace psring {

// Moves this process into a network namespace of its own, for good, in which there is a
// loopback interface and nothing else; whatever is made from then on is there, and
// nothing outside of it can be touched or reached any more. Without the privilege for
// that, into a user namespace of its own, too, where the system allows it. Only while the
// process has no other thread.
//
// Error (exit code 77): this system does not let us.
absl::Status EnterPrivateNetwork();

// A new, empty namespace. Any thread, once the process is in its private one. IPv6 is
// off, so that a link carries what is sent and no announcements.
absl::StatusOr<FileDescriptor> NewNetworkNamespace();

// Calls `task` in a thread whose network is the namespace of this descriptor, and waits
// for it; processes that it starts are in there, too. Returns what the task returns.
absl::Status RunInside(int network, absl::FunctionRef<absl::Status()> task);

// Runs a program (the first argument is its path) in the calling thread's network, with
// `input` as its input, and returns its output. Internal: it cannot be run, took more
// than 30 s, complained or failed; with its own words.
absl::StatusOr<std::string> RunTool(const std::vector<std::string>& arguments,
                                    const std::string& input = "");

}  // namespace psring

#endif  // PSRING_EXPERIMENTS_HOSTS_NETWORK_NAMESPACE_H_
