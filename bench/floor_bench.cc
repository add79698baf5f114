// The floor of a training step on this machine: oneDNN's best for every convolution and matrix product, each by itself,
// plus the bytes of everything else at the speed of a copy. No step made of these calls is faster, but for what fusion
// saves; how far ours is from it says what our own code costs.
//
//   floor_bench NET.pbtxt [--batch=N] [--threads=T] [--precision=float32|bfloat16] [--json]
#include <absl/strings/match.h>
#include <absl/strings/numbers.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/strip.h>

#include <algorithm>
#include <cstdio>
#include <optional>
#include <string>

#include "bench/step_work.h"
#include "engine/base/status.h"
#include "ops/machine_rates.h"
#include "proto/text_loader.h"

namespace snug::core::bench {
namespace {

struct Arguments {
  std::string network;
  CompileOptions compile = {.threads = 2};
  bool json = false;
};

absl::StatusOr<Arguments> Parse(int argc, char** argv) {
  Arguments arguments;
  for (int i = 1; i < argc; ++i) {
    absl::string_view argument = argv[i];
    bool good = true;
    if (absl::ConsumePrefix(&argument, "--batch=")) {
      good = absl::SimpleAtoi(argument, &arguments.compile.batch) && arguments.compile.batch > 0;
    } else if (absl::ConsumePrefix(&argument, "--threads=")) {
      good = absl::SimpleAtoi(argument, &arguments.compile.threads) && arguments.compile.threads > 0;
    } else if (absl::ConsumePrefix(&argument, "--precision=")) {
      const std::optional<DType> precision = DTypeFromName(argument);
      good = precision == DType::kFloat32 || precision == DType::kBFloat16;
      arguments.compile.precision = precision.value_or(DType::kFloat32);
    } else if (argument == "--json") {
      arguments.json = true;
    } else {
      good = !absl::StartsWith(argument, "--") && arguments.network.empty();
      arguments.network = std::string(argument);
    }
    if (!good) return absl::InvalidArgumentError(absl::StrCat("argument \"", argv[i], "\" is not understood"));
  }
  if (arguments.network.empty()) return absl::InvalidArgumentError("expected a network to measure");
  return arguments;
}

absl::Status Run(const Arguments& arguments) {
  SNUG_ASSIGN_OR_RETURN(const LoadedNetwork loaded, LoadNetworkFile(arguments.network));
  SNUG_ASSIGN_OR_RETURN(const Compiled compiled,
                        Compile(loaded.network, loaded.source_map, OpRegistry::Builtin(), arguments.compile));
  const StepWork work = FindStepWork(compiled, OpRegistry::Builtin());
  const double bandwidth = CopyBytesPerSecond(arguments.compile.threads, kBeyondCaches);
  double library_seconds = 0;
  for (const auto& [call, count] : work.calls) {
    const double seconds = BestSeconds(call, arguments.compile.threads);
    library_seconds += count * seconds;
    if (!arguments.json) {
      std::printf("%3d x %9.3f ms %7.1f GFLOP/s  %s\n", count, 1e3 * seconds, 2e-9 * call.multiply_adds() / seconds,
                  call.ToString().c_str());
    }
  }
  const double other_seconds = work.other_bytes / bandwidth;
  if (arguments.json) {
    std::printf(
        "{\"floor_seconds\": %.9g, \"library_seconds\": %.9g, \"other_seconds\": %.9g, \"other_bytes\": %.0f, "
        "\"copy_bytes_per_second\": %.6g}\n",
        library_seconds + other_seconds, library_seconds, other_seconds, work.other_bytes, bandwidth);
  } else {
    std::printf("floor %.3f ms = convolutions and products %.3f ms + %.1f MB of the rest at %.1f GB/s %.3f ms\n",
                1e3 * (library_seconds + other_seconds), 1e3 * library_seconds, 1e-6 * work.other_bytes,
                1e-9 * bandwidth, 1e3 * other_seconds);
  }
  return absl::OkStatus();
}

int Main(int argc, char** argv) {
  const absl::StatusOr<Arguments> arguments = Parse(argc, argv);
  if (!arguments.ok()) {
    std::fprintf(stderr,
                 "floor_bench: %s\nusage: floor_bench NET.pbtxt [--batch=N] [--threads=T] "
                 "[--precision=float32|bfloat16] [--json]\n",
                 std::string(arguments.status().message()).c_str());
    return 2;
  }
  const absl::Status status = Run(*arguments);
  if (status.ok()) return 0;
  std::fprintf(stderr, "%s\n", std::string(status.message()).c_str());
  return 1;
}

}  // namespace
}  // namespace snug::core::bench

int main(int argc, char** argv) { return snug::core::bench::Main(argc, argv); }
