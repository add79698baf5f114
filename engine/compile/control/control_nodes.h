// The nodes that hold rounds and branches together: slices, what is collected, masks and choices. They are named after
// the loop or branch.
#pragma once

#include <absl/status/statusor.h>

#include <string>
#include <vector>

#include "engine/graph/graph.h"
#include "ops/graph_builder.h"

namespace snug::core {

class ControlNodes {
 public:
  // For the node `of`, at whose place the nodes go.
  ControlNodes(GraphBuilder& builder, NodeId of) : builder_(builder), of_(of) {}

  const ValueType& type(ValueId value) const { return builder_.graph().type(value); }
  int64_t max_value(ValueId value) const { return builder_.graph().value(value).max_value; }
  const std::string& name() const { return builder_.graph().node(of_).name; }

  absl::StatusOr<std::vector<ValueId>> Slices(ValueId whole, int axis, bool reverse, const std::string& suffix);
  absl::StatusOr<ValueId> Collect(std::vector<ValueId> parts, int axis, bool reverse, const std::string& suffix);
  absl::StatusOr<ValueId> RoundNumber(int64_t round);
  // A mask that says where integers equal a number, or are above it.
  absl::StatusOr<ValueId> Equals(ValueId integers, int64_t value, const std::string& suffix);
  absl::StatusOr<ValueId> IsAbove(ValueId integers, int64_t value, const std::string& suffix);
  // A mask that says where a condition holds and the mask before, if there is one, does.
  absl::StatusOr<ValueId> StillHolds(ValueId condition, ValueId before, const std::string& suffix);
  absl::StatusOr<ValueId> Choose(ValueId mask, ValueId a, ValueId b, const std::string& suffix);
  absl::StatusOr<ValueId> Keep(ValueId mask, ValueId x, const std::string& suffix);
  absl::StatusOr<ValueId> Gate(ValueId x, ValueId mask, const std::string& suffix);
  absl::StatusOr<ValueId> StopGradient(ValueId x, const std::string& suffix);
  // NaN in the place of x where the mask counts, or where it does not. Integers stay as they are.
  absl::StatusOr<ValueId> Spoil(ValueId mask, ValueId x, const std::string& suffix);
  absl::StatusOr<ValueId> SpoilRest(ValueId mask, ValueId x, const std::string& suffix);

 private:
  absl::StatusOr<std::vector<ValueId>> Add(absl::string_view op, std::vector<ValueId> inputs, Options options,
                                           const std::string& suffix);
  absl::StatusOr<ValueId> AddOne(absl::string_view op, std::vector<ValueId> inputs, Options options,
                                 const std::string& suffix);
  absl::StatusOr<ValueId> Fill(DType dtype, const Shape& shape, double value, const std::string& suffix);
  absl::StatusOr<ValueId> NanLike(ValueId x, const std::string& suffix);
  absl::StatusOr<ValueId> Reshape(ValueId x, const std::vector<int64_t>& dims, const std::string& suffix);

  GraphBuilder& builder_;
  NodeId of_;
};

}  // namespace snug::core
