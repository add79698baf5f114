// What users say about a compile, put together and finished: the command by its flags, a program that embeds the
// library by its options. Memory has its own (memory_settings.h).
//
//   SNUG_ASSIGN_OR_RETURN(CompileOptions options, SettleCompile({.device = "cuda"}, OptionPlaces::OnCommandLine()));
#pragma once

#include <absl/status/statusor.h>
#include <absl/strings/string_view.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/compile/pipeline.h"
#include "proto/option_places.h"

namespace snug::core {

// Each by the name of its flag.
struct CompileSettings {
  std::string device = "cpu";
  int64_t batch = 0;
  int64_t threads = 0;    // 0: the tuning's, or every processor, which streams share
  std::string precision;  // empty: float32
  std::optional<bool> stochastic_rounding;
  std::string tuning;  // the file; empty: none
  std::string loops;   // empty: by-size
  int64_t recompute_rounds = 0;
  std::string stash_limit;  // a size, as of memory_limit; empty: none
  bool plain_kernels = false, fast = false, tf32 = false, keep_inputs = false, keep_derived = false;
  bool update_as_made = false, recompute_sweeps = false, gradients_from_outputs = false, loss_in_blocks = false;
  bool half_byte_indices = false, split_products = false;
  std::vector<std::string> disabled_passes;
  std::vector<std::string> sparse_tables;  // patterns; see SparseTables
  std::vector<std::string> only;
};

// Errors name what was said as it is written at `places`. FailedPrecondition where this build has no such device;
// whether this machine has one is asked when something is to run there: planning needs none. `without_fusion` gets why
// elementwise ops stay apart that a GPU would run as one, if they do: nothing here compiles kernels. It may be null.
absl::StatusOr<CompileOptions> SettleCompile(const CompileSettings& settings, int64_t streams,
                                             const OptionPlaces& places, std::string* without_fusion = nullptr);

absl::StatusOr<Device> SettleDevice(const std::string& text, const OptionPlaces& places);
// "float32", "bfloat16" or "float64"; otherwise the error says so, and not where.
absl::StatusOr<DType> ParsePrecision(absl::string_view text);

}  // namespace snug::core
