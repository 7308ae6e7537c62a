#include "common/metrics_server.h"

#include <exception>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/status_macros.h"
#include "common/tcp_socket.h"

namespace psring {
namespace {

absl::Status MetricsError(absl::string_view why) {
  return absl::InvalidArgumentError(absl::StrCat("--metrics: ", why));
}

// The address that the library is to bind, which knows no names.
absl::StatusOr<std::string> AddressToBind(const std::string& host_and_port) {
  const absl::StatusOr<std::vector<SocketAddress>> addresses = ResolveTcp(host_and_port);
  if (!addresses.ok()) return MetricsError(addresses.status().message());
  return addresses->front().ToString();
}

}  // namespace

absl::Status CheckCanListen(const std::string& host_and_port) {
  ASSIGN_OR_RETURN(const std::string address, AddressToBind(host_and_port));
  // The library does not say what is wrong.
  const size_t colon = address.rfind(':');
  absl::string_view host = absl::string_view(address).substr(0, colon);
  if (absl::StartsWith(host, "[")) host = host.substr(1, host.size() - 2);
  int port = 0;
  if (!absl::SimpleAtoi(address.substr(colon + 1), &port)) {
    return MetricsError(absl::StrCat("no port in ", address));
  }
  const absl::Status listened = ListenTcp(host, port).status();
  return listened.ok() ? listened : MetricsError(listened.message());
}

absl::StatusOr<std::unique_ptr<MetricsServer>> MetricsServer::Start(
    const std::string& host_and_port,
    std::shared_ptr<prometheus::Collectable> collectable) {
  RETURN_IF_ERROR(CheckCanListen(host_and_port));
  ASSIGN_OR_RETURN(const std::string address, AddressToBind(host_and_port));
  try {
    auto exposer = std::make_unique<prometheus::Exposer>(address);
    exposer->RegisterCollectable(collectable);
    return std::unique_ptr<MetricsServer>(
        new MetricsServer(std::move(exposer), std::move(collectable)));
  } catch (const std::exception& error) {
    return MetricsError(absl::StrCat("cannot listen at ", address, ": ", error.what()));
  }
}

MetricsServer::MetricsServer(std::unique_ptr<prometheus::Exposer> exposer,
                             std::shared_ptr<prometheus::Collectable> collectable)
    : collectable_(std::move(collectable)), exposer_(std::move(exposer)) {}

}  // namespace psring
