// Answers Prometheus over HTTP.
#ifndef PSRING_COMMON_METRICS_SERVER_H_
#define PSRING_COMMON_METRICS_SERVER_H_

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "prometheus/collectable.h"
#include "prometheus/exposer.h"

namespace psring {

// InvalidArgument: nobody can listen at HOST:PORT, and why.
absl::Status CheckCanListen(const std::string& host_and_port);

// Serves HOST:PORT/metrics until it is destroyed, in threads of its own, which call
// Collect when they are asked.
class MetricsServer {
 public:
  // Port 0: any free one. Errors as above.
  static absl::StatusOr<std::unique_ptr<MetricsServer>> Start(
      const std::string& host_and_port,
      std::shared_ptr<prometheus::Collectable> collectable);

  int port() const { return exposer_->GetListeningPorts().front(); }

 private:
  MetricsServer(std::unique_ptr<prometheus::Exposer> exposer,
                std::shared_ptr<prometheus::Collectable> collectable);

  // The server holds it by a weak pointer.
  const std::shared_ptr<prometheus::Collectable> collectable_;
  const std::unique_ptr<prometheus::Exposer> exposer_;
};

}  // namespace psring

#endif  // PSRING_COMMON_METRICS_SERVER_H_
