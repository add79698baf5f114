// The updates stage: turns gradients into nodes that mutate Variables. One flag gates all of them, "the objectives are
// finite", and it is known before the first of them runs: a step whose loss is NaN changes nothing.
#pragma once

#include <absl/status/status.h>

#include <unordered_map>

#include "engine/compile/import/import.h"

namespace snug::proto {
class Optimizer;
}

namespace snug::core {

inline constexpr absl::string_view kLearningRateName = "optimizer.learning_rate";
inline constexpr absl::string_view kGradientNormName = "gradient_norm";

// Describes a step in micro-batches. All but the last only add to sums: of each trained parameter's gradient, and of
// what each statistic's update reads. The last one updates with the means, and empties the sums.
struct MicroBatches {
  int64_t count = 1;
  bool last = true;  // whether this program is the last micro-batch's
};

struct UpdateOptions {
  bool gradient_norm = false;  // makes the global norm of all gradients an output, also without clipping
  MicroBatches micro_batches;
};

// Adds at the end of program order: the gate, clipping, one update for each trained parameter, the statistics' updates,
// and the step counter's; before the last micro-batch only the gate and the sums. `gradients` is the result of
// AddBackward.
absl::Status AddUpdates(Imported& imported, const OpRegistry& registry, const proto::Optimizer& optimizer,
                        const std::unordered_map<ValueId, ValueId>& gradients, const UpdateOptions& options);

}  // namespace snug::core
