#include "engine/compile/compile_settings.h"

#include <absl/strings/str_cat.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "engine/base/has_cuda.h"
#include "engine/base/machine.h"
#include "engine/base/status.h"
#include "engine/base/text/byte_size.h"
#include "ops/platform.h"
#if SNUG_HAS_CUDA
#include "engine/cuda/cuda_compile.h"
#endif

namespace snug::core {
namespace {

// What rounds, and what adds in any sequence, is a library on a GPU.
absl::Status CheckLibrarySettings(const CompileSettings& settings, Device device, const OptionPlaces& places) {
  if (!settings.tf32 && !settings.fast) return absl::OkStatus();
  const absl::string_view name = settings.tf32 ? "tf32" : "fast";
  if (device.kind != Device::Kind::kCuda) {
    return places.FlagError(
        name, absl::StrCat("expected ", places.FlagWritten("device", "cuda"),
                           settings.tf32 ? ", whose tensor cores compute so" : ", whose libraries add so", ", found ",
                           places.FlagWritten("device", settings.device)));
  }
  if (!settings.plain_kernels) return absl::OkStatus();
  return places.FlagError(name, absl::StrCat("expected no ", places.FlagName("plain-kernels"), " beside it, as those ",
                                             settings.tf32 ? "round nothing" : "have the same bits each time"));
}

// Rounds are computed anew by loops that stay one node: passes would merge those of a straight line with the first
// ones.
absl::Status CheckLoopSettings(const CompileSettings& settings, Device device, LoopRule loops,
                               const OptionPlaces& places) {
  const bool limited = !settings.stash_limit.empty(), anew = settings.recompute_rounds != 0;
  if (limited && anew) {
    return places.FlagError("stash-limit", absl::StrCat("chooses the rounds that are kept by itself; leave it or ",
                                                        places.FlagName("recompute-rounds"), " out"));
  }
  const absl::string_view name = limited ? "stash-limit" : "recompute-rounds";
  if (device.kind == Device::Kind::kCuda) {
    if (limited || anew) {
      return places.FlagError(
          name, absl::StrCat("is for loops that stay one node, found ", places.FlagWritten("device", settings.device),
                             ", where all are unrolled"));
    }
    if (loops != LoopRule::kRolled) return absl::OkStatus();
    return places.FlagError(
        "loops", absl::StrCat(LoopRuleName(loops), " is for the CPU, found ",
                              places.FlagWritten("device", settings.device), ", where all loops are unrolled"));
  }
  if (loops != LoopRule::kUnrolled || (!limited && !anew)) return absl::OkStatus();
  return places.FlagError(
      name, absl::StrCat("is for loops that stay one node, found ", places.FlagWritten("loops", LoopRuleName(loops))));
}

// Kernels that are fused have to be compiled where they run: without a compiler the pass that makes them is left out.
std::string LeaveOutFusionWithoutCompiler([[maybe_unused]] CompileOptions& options) {
#if SNUG_HAS_CUDA
  if (options.device.kind != Device::Kind::kCuda) return "";
  const absl::Status found = cuda::FindCompiler();
  if (!found.ok() && options.disabled_passes.insert("fuse_elementwise").second) return std::string(found.message());
#endif
  return "";
}

absl::Status UseTuning(const CompileSettings& settings, const OptionPlaces& places, CompileOptions& options) {
  const absl::StatusOr<Platform> here = PlatformOf(options.device);
  if (!here.ok()) {
    return Annotate(here.status(),
                    absl::StrCat(places.FlagName("tuning"), ": is for the machine that it was measured on"));
  }
  SNUG_ASSIGN_OR_RETURN(Tuning tuning, LoadTuning(settings.tuning, *here));
  if (options.device.kind == Device::Kind::kCpu) {  // elsewhere nothing that was measured depends on threads
    if (settings.threads != 0 && settings.threads != tuning.threads) {
      return places.FlagError("threads",
                              absl::StrCat(settings.tuning, " was measured with ", tuning.threads, " per op, found ",
                                           settings.threads, "; leave one of the two flags out"));
    }
    options.threads = tuning.threads;
  }
  options.disabled_passes.insert(tuning.disabled_passes.begin(), tuning.disabled_passes.end());
  options.tuning = std::make_shared<const Tuning>(std::move(tuning));
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<DType> ParsePrecision(absl::string_view text) {
  const std::optional<DType> dtype = DTypeFromName(text);
  if (dtype.has_value() && IsFloating(*dtype)) return *dtype;
  return absl::InvalidArgumentError(absl::StrCat("expected float32, bfloat16 or float64, found \"", text, "\""));
}

absl::StatusOr<Device> SettleDevice(const std::string& text, const OptionPlaces& places) {
  absl::StatusOr<Device> device = ParseDevice(text);
  if (!device.ok()) return places.FlagError("device", device.status().message());
#if !SNUG_HAS_CUDA
  if (device->kind == Device::Kind::kCuda) {
    return absl::FailedPreconditionError(
        absl::StrCat(places.FlagWritten("device", text), ": this build has no CUDA; CMake finds it where nvcc is"));
  }
#endif
  return device;
}

absl::StatusOr<CompileOptions> SettleCompile(const CompileSettings& settings, int64_t streams,
                                             const OptionPlaces& places, std::string* without_fusion) {
  const absl::StatusOr<DType> precision = ParsePrecision(settings.precision.empty() ? "float32" : settings.precision);
  if (!precision.ok()) return places.FlagError("precision", precision.status().message());
  const bool rounds = settings.stochastic_rounding.value_or(false);
  if (rounds && *precision != DType::kBFloat16) {
    return places.FlagError(
        "stochastic-rounding",
        absl::StrCat("expected ", places.FlagWritten("precision", Name(DType::kBFloat16)),
                     ", whose parameters it rounds, found ", places.FlagWritten("precision", Name(*precision))));
  }
  SNUG_ASSIGN_OR_RETURN(const Device device, SettleDevice(settings.device, places));
  const absl::StatusOr<LoopRule> loops = ParseLoopRule(settings.loops.empty() ? "by-size" : settings.loops);
  if (!loops.ok()) return places.FlagError("loops", loops.status().message());
  int64_t stash_limit = 0;
  if (!settings.stash_limit.empty()) {
    const absl::StatusOr<int64_t> bytes = ParseByteSize("", settings.stash_limit);
    if (!bytes.ok()) return places.FlagError("stash-limit", bytes.status().message());
    if (*bytes < 1) return places.FlagError("stash-limit", "expected at least 1 byte; leave it out for none");
    stash_limit = *bytes;
  }
  SNUG_RETURN_IF_ERROR(CheckLoopSettings(settings, device, *loops, places));
  CompileOptions options{
      .device = device,
      .batch = settings.batch,
      .precision = *precision,
      .stochastic_rounding = rounds,
      .threads = static_cast<int>(settings.threads > 0 ? settings.threads
                                                       : std::max<int64_t>(AvailableProcessors() / streams, 1)),
      .plain_kernels = settings.plain_kernels,
      .fast = settings.fast,
      .tf32 = settings.tf32,
      .loops = *loops,
      .recompute_rounds = settings.recompute_rounds,
      .stash_limit = stash_limit,
      .only = settings.only,
      .keep_inputs = settings.keep_inputs,
      .keep_derived = settings.keep_derived,
      .update_as_made = settings.update_as_made,
      .sparse_tables = {settings.sparse_tables, places},
      .recompute_sweeps = settings.recompute_sweeps,
      .gradients_from_outputs = settings.gradients_from_outputs,
      .loss_in_blocks = settings.loss_in_blocks,
      .half_byte_indices = settings.half_byte_indices,
      .split_products = settings.split_products};
  options.disabled_passes.insert(settings.disabled_passes.begin(), settings.disabled_passes.end());
  std::string why = LeaveOutFusionWithoutCompiler(options);
  if (without_fusion != nullptr) *without_fusion = std::move(why);
  if (!settings.tuning.empty() && settings.plain_kernels) {
    return places.FlagError("plain-kernels", "a tuning chooses among fast ones; leave one of the two out");
  }
  SNUG_RETURN_IF_ERROR(CheckLibrarySettings(settings, device, places));
  if (!settings.tuning.empty()) SNUG_RETURN_IF_ERROR(UseTuning(settings, places, options));
  return options;
}

}  // namespace snug::core
