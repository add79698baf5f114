#include "engine/compile/check_options.h"

#include <absl/strings/str_cat.h>
#include <absl/strings/str_join.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "engine/base/status.h"
#include "engine/compile/pipeline.h"

namespace snug::core {
namespace {

absl::Status CheckPassNames(const CompileOptions& options) {
  const std::vector<std::string> names = PassNames();
  for (const std::string& name : options.disabled_passes) {
    if (std::find(names.begin(), names.end(), name) == names.end()) {
      return absl::InvalidArgumentError(
          absl::StrCat("unknown pass \"", name, "\"; there are: ", absl::StrJoin(names, ", ")));
    }
  }
  return absl::OkStatus();
}

// Of options that are made, and tested, for the CPU.
absl::Status CheckForTheProcessor(const CompileOptions& options) {
  if (options.device.kind == Device::Kind::kCpu) return absl::OkStatus();
  const std::pair<bool, absl::string_view> asked[] = {{options.update_as_made, "update-as-made"},
                                                      {options.recompute_sweeps, "recompute-sweeps"},
                                                      {options.gradients_from_outputs, "gradients-from-outputs"},
                                                      {options.loss_in_blocks, "loss-in-blocks"},
                                                      {options.half_byte_indices, "half-byte-indices"},
                                                      {options.split_products, "split-products"}};
  for (const auto& [said, name] : asked) {
    if (!said) continue;
    return absl::InvalidArgumentError(
        absl::StrCat(name, ": is for the CPU, found the device ", options.device.ToString()));
  }
  return absl::OkStatus();
}

absl::Status CheckStashLimit(const CompileOptions& options) {
  if (options.stash_limit == 0) return absl::OkStatus();
  if (options.stash_limit < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("stash-limit: expected at least 1 byte, or 0 for none, found ", options.stash_limit));
  }
  if (options.recompute_rounds == 0) return absl::OkStatus();
  return absl::InvalidArgumentError(
      "stash-limit: chooses the rounds that are kept by itself; expected no recompute-rounds");
}

absl::Status CheckRecomputeRounds(const CompileOptions& options) {
  if (options.recompute_rounds >= 0 || options.recompute_rounds == kSquareRoot) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("recompute-rounds: expected a number of rounds, 0 for none or ",
                                                 kSquareRoot, " for about the square root, found ",
                                                 options.recompute_rounds));
}

// Rounds are computed anew by loops that stay one node. Of a straight line, this pass would merge those rounds with the
// first ones, and all would be kept after all.
bool MergesRoundsAnew(const CompileOptions& options) {
  return !options.disabled_passes.contains("common_subexpressions");
}

// Of options that only loops understand that stay one node.
absl::Status CheckForRolledLoops(const CompileOptions& options) {
  const bool anew = options.recompute_rounds != 0 && MergesRoundsAnew(options);
  const absl::string_view name = options.stash_limit != 0 ? "stash-limit" : anew ? "recompute-rounds" : "";
  if (options.device.kind == Device::Kind::kCuda) {
    if (!name.empty()) {
      return absl::InvalidArgumentError(absl::StrCat(name, ": is for loops that stay one node, found the device ",
                                                     options.device.ToString(), ", where all are unrolled"));
    }
    if (options.loops != LoopRule::kRolled) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat("loops: the rule ", LoopRuleName(options.loops),
                                                   " is for the CPU, found the device ", options.device.ToString(),
                                                   ", where all loops are unrolled"));
  }
  if (name.empty() || options.loops != LoopRule::kUnrolled) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(name, ": is for loops that stay one node, found the rule ", LoopRuleName(options.loops)));
}

}  // namespace

absl::Status CheckCompileOptions(const CompileOptions& options) {
  SNUG_RETURN_IF_ERROR(CheckPassNames(options));
  if (options.keep_derived && options.training) {
    return absl::InvalidArgumentError(
        "keep-derived: expected a forward-only program, as training changes the weights in every step");
  }
  if (options.keep_derived && options.device.kind != Device::Kind::kCpu) {
    return absl::InvalidArgumentError(
        absl::StrCat("keep-derived: is for the CPU, found the device ", options.device.ToString()));
  }
  SNUG_RETURN_IF_ERROR(CheckForTheProcessor(options));
  if (options.stochastic_rounding && options.precision != DType::kBFloat16) {
    return absl::InvalidArgumentError(
        absl::StrCat("stochastic-rounding: expected the precision bfloat16, found ", Name(options.precision)));
  }
  SNUG_RETURN_IF_ERROR(CheckStashLimit(options));
  SNUG_RETURN_IF_ERROR(CheckRecomputeRounds(options));
  return CheckForRolledLoops(options);
}

}  // namespace snug::core
