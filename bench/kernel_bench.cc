// Our own matrix products and Winograd convolutions beside oneDNN's best, for every call of a network's training step:
//
//   kernel_bench NET.pbtxt [--batch=N] [--threads=T]
//
// Both on data that is in memory already, the median of several runs; GFLOP/s are nominal, those of the direct sum. The
// library may choose the layouts that it likes best, and they cost it nothing here; ours are what the network has. The
// largest difference of the results is not looked at: tests do that.
#include <absl/strings/match.h>
#include <absl/strings/numbers.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/strip.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "bench/step_work.h"
#include "engine/base/status.h"
#include "ops/kernels/conv/winograd/winograd.h"
#include "ops/kernels/conv/winograd_sizes.h"
#include "ops/kernels/matmul/blocked.h"
#include "ops/kit/isa.h"
#include "proto/text_loader.h"

namespace snug::core::bench {
namespace {

// Numbers in memory on a cache line.
class Floats {
 public:
  explicit Floats(int64_t count) : memory_(static_cast<size_t>(count) + 16, 0.5F) {
    void* begin = memory_.data();
    size_t space = memory_.size() * sizeof(float);
    data_ = static_cast<float*>(std::align(64, static_cast<size_t>(count) * sizeof(float), begin, space));
  }
  float* data() const { return data_; }

 private:
  std::vector<float> memory_;
  float* data_;
};

double MedianSeconds(const std::function<void()>& run) {
  constexpr int kRuns = 7;
  run();
  std::vector<double> seconds;
  for (int i = 0; i < kRuns; ++i) {
    const auto start = std::chrono::steady_clock::now();
    run();
    seconds.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  std::nth_element(seconds.begin(), seconds.begin() + kRuns / 2, seconds.end());
  return seconds[kRuns / 2];
}

double ProductSeconds(const LibraryCall& c, int threads) {
  const Floats a(c.m * c.k), b(c.k * c.n), y(c.m * c.n);
  const Floats workspace(BlockedGemmWorkspaceBytes<float>(threads, c.m, c.n, c.k) /
                         static_cast<int64_t>(sizeof(float)));
  const GemmCall<float> call = {.m = c.m,
                                .n = c.n,
                                .k = c.k,
                                .a = {a.data(), c.transpose_a ? 1 : c.k, c.transpose_a ? c.m : 1},
                                .b = {b.data(), c.transpose_b ? 1 : c.n, c.transpose_b ? c.k : 1},
                                .c = y.data()};
  return MedianSeconds([&] { BlockedGemm(threads, call, Activation::kIdentity, workspace.data()); });
}

double WinogradSeconds(const LibraryCall& c, int threads) {
  const ops::ConvPart part = c.kind == LibraryCall::Kind::kConvBackwardData      ? ops::ConvPart::kGradInput
                             : c.kind == LibraryCall::Kind::kConvBackwardWeights ? ops::ConvPart::kGradWeight
                                                                                 : ops::ConvPart::kForward;
  const WinogradSizes s = ops::WinogradSizesOf(part, c.conv);
  const Floats x(s.batch * s.in_height * s.in_width * s.in_channels);
  const Floats y(s.batch * s.out_height * s.out_width * s.out_channels);
  const Floats w(9 * s.in_channels * s.out_channels);
  const bool weights = part == ops::ConvPart::kGradWeight;
  const Floats workspace((weights ? WinogradGradWeightWorkspaceBytes(threads, s)
                                  : WinogradConvWorkspaceBytes(threads, s, /*transformed=*/false)) /
                         static_cast<int64_t>(sizeof(float)));
  if (weights) {
    return MedianSeconds([&] { WinogradGradWeight(threads, s, x.data(), y.data(), w.data(), workspace.data()); });
  }
  const WinogradFilters<float> filters = ops::WinogradFiltersOf<float>(part, c.conv, w.data());
  return MedianSeconds([&] {
    WinogradConv<float>(threads, s, x.data(), filters, nullptr, Activation::kIdentity, y.data(), workspace.data());
  });
}

// nullopt: we have nothing of our own for it.
std::optional<double> OwnSeconds(const LibraryCall& c, int threads) {
  if (c.kind == LibraryCall::Kind::kMatMul) {
    if (c.batch != 1) return std::nullopt;
    return ProductSeconds(c, threads);
  }
  if (c.conv.groups != 1 || ops::WhyNotWinogradSizes(c.conv).has_value()) return std::nullopt;
  return WinogradSeconds(c, threads);
}

absl::Status Run(int argc, char** argv) {
  CompileOptions options = {.threads = 2};
  std::string network;
  for (int i = 1; i < argc; ++i) {
    absl::string_view argument = argv[i];
    bool good = true;
    if (absl::ConsumePrefix(&argument, "--batch=")) {
      good = absl::SimpleAtoi(argument, &options.batch) && options.batch > 0;
    } else if (absl::ConsumePrefix(&argument, "--threads=")) {
      good = absl::SimpleAtoi(argument, &options.threads) && options.threads > 0;
    } else {
      good = !absl::StartsWith(argument, "--") && network.empty();
      network = std::string(argument);
    }
    if (!good) return absl::InvalidArgumentError(absl::StrCat("argument \"", argv[i], "\" is not understood"));
  }
  if (network.empty()) return absl::InvalidArgumentError("expected a network to measure");
  SNUG_ASSIGN_OR_RETURN(const LoadedNetwork loaded, LoadNetworkFile(network));
  SNUG_ASSIGN_OR_RETURN(const Compiled compiled,
                        Compile(loaded.network, loaded.source_map, OpRegistry::Builtin(), options));
  std::printf("%s, %d threads; GFLOP/s of the library's best and of ours, and ours / the library's\n",
              Name(CurrentIsa()), options.threads);
  for (const CountedCall& counted : FindStepWork(compiled, OpRegistry::Builtin()).calls) {
    const std::optional<double> own = OwnSeconds(counted.call, options.threads);
    if (!own.has_value()) continue;
    const double library = BestSeconds(counted.call, options.threads);
    const double flops = 2e-9 * counted.call.multiply_adds();
    std::printf("%7.1f %7.1f  %5.2f  %2d x %s\n", flops / library, flops / *own, library / *own, counted.count,
                counted.call.ToString().c_str());
    std::fflush(stdout);
  }
  return absl::OkStatus();
}

}  // namespace
}  // namespace snug::core::bench

int main(int argc, char** argv) {
  const absl::Status status = snug::core::bench::Run(argc, argv);
  if (status.ok()) return 0;
  std::fprintf(stderr, "kernel_bench: %s\n", std::string(status.message()).c_str());
  return 1;
}
