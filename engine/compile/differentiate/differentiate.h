// The stages that add what training needs to the Graph: gradients (backward.cc), and updates of Variables (updates.cc).
#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <unordered_map>
#include <utility>
#include <vector>

#include "engine/compile/differentiate/row_gradients.h"
#include "engine/compile/import/import.h"
#include "ops/graph_builder.h"

namespace snug::proto {
class Optimizer;
}

namespace snug::core {

// The backward stage: adds the explicit gradient graph to the same Graph. It only has what the objectives reach and the
// wanted values need. Where a value is read several times, one inserted `add_n` sums its gradients in forward use
// order; the forward pass gets no extra nodes.
struct BackwardOptions {
  std::vector<ValueId> wanted;  // values of Variables, graph inputs, or any value in between
  // Further gradients: of each value, and what comes back into it from outside of the graph.
  std::vector<std::pair<ValueId, ValueId>> seeds = {};
  // A wanted value that no objective depends on is either absent from the result or gets a node of zeros.
  enum class NoPath : uint8_t { kAbsent, kZeros } no_path = NoPath::kAbsent;
};

// Adds backward nodes for graph.objectives (the gradient of the sum of all their elements) and returns the gradient of
// each wanted value. An op on the way without a gradient is an error that names its node.
absl::StatusOr<std::unordered_map<ValueId, ValueId>> AddBackward(GraphBuilder& builder, const BackwardOptions& options);

// Returns the values of all parameters that are trained, in creation order.
std::vector<ValueId> TrainedParameters(const Graph& graph);

inline constexpr absl::string_view kLearningRateName = "optimizer.learning_rate";
inline constexpr absl::string_view kGradientNormName = "gradient_norm";
// What the name of a parameter's moving average (proto::Average) adds to that of the parameter.
inline constexpr absl::string_view kAverageSuffix = "/average";

// Describes a step in micro-batches. All but the last only add to sums: of each trained parameter's gradient, and of
// what each statistic's update reads. The last one updates with the means, and empties the sums.
struct MicroBatches {
  int64_t count = 1;
  bool last = true;  // whether this program is the last micro-batch's
};

struct UpdateOptions {
  bool gradient_norm = false;        // makes the global norm of all gradients an output, also without clipping
  bool parameter_gradients = false;  // CompileOptions has it
  MicroBatches micro_batches;
  Device device;
  SparseTables sparse_tables;
};

// The updates stage: turns gradients into nodes that mutate Variables. One flag gates all of them, "the objectives are
// finite", and it is known before the first of them runs: a step whose loss is NaN changes nothing.
//
// Adds at the end of program order: the gate, clipping, one update for each trained parameter, those of the parameters'
// averages and of the statistics, and the step counter's; before the last micro-batch only the gate and the sums.
// `gradients` is the result of AddBackward. Of tables they may become lists of rows: `tables` gets what became of each.
absl::Status AddUpdates(Imported& imported, const OpRegistry& registry, const proto::Optimizer& optimizer,
                        const std::unordered_map<ValueId, ValueId>& gradients, const UpdateOptions& options,
                        std::vector<TableGradient>* tables);

}  // namespace snug::core
