// Reads all links of emulated hosts while processes run on them.
#ifndef PSRING_EXPERIMENTS_HOSTS_LINK_SAMPLER_H_
#define PSRING_EXPERIMENTS_HOSTS_LINK_SAMPLER_H_

#include <functional>
#include <thread>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/mutex.h"
#include "experiments/hosts/host_network.h"
#include "experiments/hosts/link_reading.h"

namespace psring {

// A reading at the start, four a second in a thread of its own (fewer, where reading
// takes long: down to one), and one at the end. After the first error nothing is read any
// more.
class LinkSampler {
 public:
  // Called in one thread at a time.
  using Take = std::function<void(const HostsReading&)>;

  // Returns when the first reading has been taken. `network` outlives the sampler.
  LinkSampler(const HostNetwork* network, Take take);
  ~LinkSampler();
  LinkSampler(const LinkSampler&) = delete;
  LinkSampler& operator=(const LinkSampler&) = delete;

  // OK until the first error. Any thread.
  absl::Status status() const;
  // The last call: returns when the last reading has been taken; the first error.
  absl::Status Stop();

 private:
  void Sample();
  void Run();
  void Join();

  const HostNetwork* const network_;
  const Take take_;
  absl::Duration pause_;  // Until the next reading. The thread's, and before it starts.

  mutable Mutex mutex_;
  CondVar stopped_;
  bool stop_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Status status_ ABSL_GUARDED_BY(mutex_);

  std::thread thread_;
};

}  // namespace psring

#endif  // PSRING_EXPERIMENTS_HOSTS_LINK_SAMPLER_H_
