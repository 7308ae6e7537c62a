// One rank of Gloo in a benchmark, over TCP on the loopback interface; psring starts it.
#include <exception>
#include <filesystem>
#include <iostream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/strings/str_cat.h"
#include "common/errors.h"
#include "experiments/bench/rank.h"
#include "gloo/algorithm.h"
#include "gloo/allreduce.h"
#include "gloo/allreduce_halving_doubling.h"
#include "gloo/allreduce_ring_chunked.h"
#include "gloo/config.h"
#include "gloo/rendezvous/context.h"
#include "gloo/rendezvous/file_store.h"
#include "gloo/transport/tcp/device.h"

namespace psring {
namespace {

// Gloo throws where it fails.
template <typename Function>
absl::Status Guarded(Function function) {
  try {
    function();
  } catch (const std::exception& error) {
    return absl::UnavailableError(absl::StrCat("Gloo: ", error.what()));
  }
  return absl::OkStatus();
}

class GlooRank final : public BenchRank {
 public:
  GlooRank(int rank, int ranks, std::string algorithm, std::string store)
      : algorithm_(std::move(algorithm)),
        store_(std::move(store)),
        context_(std::make_shared<gloo::rendezvous::Context>(rank, ranks)) {}

  std::string version() const override {
    return absl::StrCat(GLOO_VERSION_MAJOR, ".", GLOO_VERSION_MINOR, ".",
                        GLOO_VERSION_PATCH);
  }

  // The ranks find each other through files in the store's folder.
  absl::Status Connect(const std::vector<std::string>&) override {
    return Guarded([&] {
      std::filesystem::create_directory(store_);
      gloo::rendezvous::FileStore store(store_);
      auto device = gloo::transport::tcp::CreateDevice("127.0.0.1");
      context_->connectFullMesh(store, device);
    });
  }

  absl::StatusOr<std::span<float>> Prepare(int64_t count) override {
    // Gloo's older algorithms are objects that are set up for their values.
    run_ = nullptr;
    values_.resize(count);
    std::vector<float*> pointers = {values_.data()};
    const int elements = static_cast<int>(count);
    const absl::Status made = Guarded([&] {
      if (algorithm_ == "ring_chunked") {
        Use(std::make_shared<gloo::AllreduceRingChunked<float>>(context_, pointers,
                                                                elements));
      } else if (algorithm_ == "halving_doubling") {
        Use(std::make_shared<gloo::AllreduceHalvingDoubling<float>>(context_, pointers,
                                                                    elements));
      } else {
        run_ = [this] { AllReduceByFunction(); };
      }
    });
    if (!made.ok()) return made;
    return values_;
  }

  absl::Status AllReduce() override { return Guarded(run_); }

 private:
  void Use(std::shared_ptr<gloo::Algorithm> algorithm) {
    run_ = [algorithm = std::move(algorithm)] { algorithm->run(); };
  }

  void AllReduceByFunction() {
    gloo::AllreduceOptions options(context_);
    options.setOutput(values_.data(), values_.size());
    options.setReduceFunction(
        static_cast<void (*)(void*, const void*, const void*, size_t)>(
            &gloo::sum<float>));
    options.setAlgorithm(algorithm_ == "bcube" ? gloo::AllreduceOptions::Algorithm::BCUBE
                                               : gloo::AllreduceOptions::Algorithm::RING);
    gloo::allreduce(options);
  }

  const std::string algorithm_;
  const std::string store_;
  const std::shared_ptr<gloo::rendezvous::Context> context_;
  std::vector<float> values_;
  std::function<void()> run_;  // Sums the prepared values.
};

int Main(int argc, char** argv) {
  CLI::App app("One rank of Gloo in a benchmark; started by psring.");
  std::string control, algorithm, store;
  int rank = 0, ranks = 0;
  app.add_option("--control", control)->required();
  app.add_option("--rank", rank)->required();
  app.add_option("--ranks", ranks)->required();
  app.add_option("--algorithm", algorithm)
      ->required()
      ->check(CLI::IsMember({"ring", "ring_chunked", "halving_doubling", "bcube"}));
  app.add_option("--store", store, "Folder through which the ranks meet")->required();
  CLI11_PARSE(app, argc, argv);

  GlooRank subject(rank, ranks, algorithm, store);
  const absl::Status status = ServeBench(control, rank, ranks, subject);
  if (!status.ok()) std::cerr << "gloo_rank: " << status.message() << std::endl;
  return static_cast<int>(ExitCodeOf(status));
}

}  // namespace
}  // namespace psring

int main(int argc, char** argv) { return psring::Main(argc, argv); }
