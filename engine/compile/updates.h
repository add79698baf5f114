// The updates stage: from gradients to nodes that mutate Variables. All of them are gated by one flag, "the objectives
// are finite", which is known before the first of them: a step whose loss is NaN changes nothing.
#pragma once

#include <absl/status/status.h>

#include <unordered_map>

#include "engine/compile/import.h"

namespace snug {
namespace proto {
class Optimizer;
}

inline constexpr absl::string_view kLearningRateName = "optimizer.learning_rate";
inline constexpr absl::string_view kGradientNormName = "gradient_norm";

// Of a step in micro-batches. All but the last only add to sums: of each trained parameter's gradient, and of what each
// statistic's update reads. The last one updates with the means, and empties the sums.
struct MicroBatches {
  int64_t count = 1;
  bool last = true;  // which of the two this program is
};

struct UpdateOptions {
  bool gradient_norm = false;  // compute the global norm of all gradients and make it an output, also without clipping
  MicroBatches micro_batches;
};

// Adds, at the end of program order: the gate, clipping, one update per trained parameter, the statistics' updates, and
// the step counter's; or, where sums are all that is wanted, the gate and those. `gradients`: of AddBackward.
absl::Status AddUpdates(Imported& imported, const OpRegistry& registry, const proto::Optimizer& optimizer,
                        const std::unordered_map<ValueId, ValueId>& gradients, const UpdateOptions& options);

}  // namespace snug
