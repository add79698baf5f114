// The stages that add what training needs to the Graph: gradients (backward.cc), and updates of Variables (updates.cc).
#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <unordered_map>
#include <utility>
#include <vector>

#include "engine/compile/differentiate/row_gradients.h"
#include "engine/compile/differentiate/update_groups.h"
#include "engine/compile/import/import.h"
#include "ops/graph_builder.h"

namespace snug::core {

// The backward stage: adds the explicit gradient graph to the same Graph. It only has what the objectives reach and the
// wanted values need. Where a value is read several times, one inserted `add_n` sums its gradients in forward use
// order; the forward pass gets no extra nodes.
struct BackwardOptions {
  std::vector<ValueId> wanted;  // values of Variables, graph inputs, or any value in between
  // Further gradients: of each value, and what comes back into it from outside of the graph.
  std::vector<std::pair<ValueId, ValueId>> seeds = {};
  // What is minimised, and where the new nodes go; nothing: all objectives of the graph, at its end. With these only
  // the nodes of the forward pass are differentiated: others may be there already.
  const UpdateGroup* group = nullptr;
  // A wanted value that no objective depends on is either absent from the result or gets a node of zeros.
  enum class NoPath : uint8_t { kAbsent, kZeros } no_path = NoPath::kAbsent;
};

// Adds backward nodes for the objectives (the gradient of the sum of all their elements) and returns the gradient of
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

// The updates stage: turns gradients into nodes that mutate Variables. One flag gates all of a group, "the objectives
// are finite", and it is known before the first of them runs: a step whose loss is NaN changes nothing. Of several
// groups, each has a flag that counts the objectives of those before it too. So what may have been changed by a step
// whose loss is NaN are the groups before the first one with such an objective.
//
// Adds at the end of each group's turn: the gate, clipping, one update for each of its parameters, those of their
// averages and of the statistics; the last one has the step counter's, too. Before the last micro-batch there are only
// the gate and the sums. `gradients` are those that AddBackward gave. Of tables they may become lists of rows: `tables`
// gets what became of each.
absl::Status AddUpdates(Imported& imported, const OpRegistry& registry, const std::vector<UpdateGroup>& groups,
                        const std::unordered_map<ValueId, ValueId>& gradients, const UpdateOptions& options,
                        std::vector<TableGradient>* tables);

}  // namespace snug::core
