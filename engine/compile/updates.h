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

struct UpdateOptions {
  bool gradient_norm = false;  // compute the global norm of all gradients and make it an output, also without clipping
};

// Adds, at the end of program order: the gate, clipping, one update per trained parameter, the statistics' updates, and
// the step counter's. `gradients`: of AddBackward.
absl::Status AddUpdates(Imported& imported, const OpRegistry& registry, const proto::Optimizer& optimizer,
                        const std::unordered_map<ValueId, ValueId>& gradients, const UpdateOptions& options);

}  // namespace snug
