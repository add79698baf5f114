// The nodes that hold rounds and branches together: slices, what is collected, masks and choices.
#pragma once

#include <absl/status/statusor.h>

#include <string>
#include <utility>
#include <vector>

#include "engine/graph/graph.h"
#include "ops/graph_builder.h"

namespace snug::core {

class ControlNodes {
 public:
  // Nodes go to the builder's insertion point, and are named "<name>/<suffix>", or only by the suffix.
  ControlNodes(GraphBuilder& builder, std::string name, SourceLoc loc, Phase phase)
      : builder_(builder), name_(std::move(name)), loc_(std::move(loc)), phase_(phase) {}
  // They are named after the node `of`, and are of its phase.
  ControlNodes(GraphBuilder& builder, NodeId of)
      : ControlNodes(builder, builder.graph().node(of).name, builder.graph().node(of).loc,
                     builder.graph().node(of).phase) {}

  const ValueType& type(ValueId value) const { return builder_.graph().type(value); }
  int64_t max_value(ValueId value) const { return builder_.graph().value(value).max_value; }
  const std::string& name() const { return name_; }

  absl::StatusOr<std::vector<ValueId>> Slices(ValueId whole, int axis, const std::string& suffix);
  // One of the slices, by its place along the axis.
  absl::StatusOr<ValueId> Slice(ValueId whole, int axis, int64_t place, const std::string& suffix);
  // Slices of `places` places, which keep the axis: `count` of them, in their sequence along it. What is left over is
  // at its end, or at its begin if `from_end`.
  absl::StatusOr<std::vector<ValueId>> Cuts(ValueId whole, int axis, int64_t places, int64_t count, bool from_end,
                                            const std::string& suffix);
  absl::StatusOr<ValueId> Collect(std::vector<ValueId> parts, int axis, const std::string& suffix);
  // Puts together what has the axis already.
  absl::StatusOr<ValueId> Join(std::vector<ValueId> parts, int axis, const std::string& suffix);
  // What lies from `begin` to `end` along the axis, which it keeps; and the gradient of that, among zeros.
  absl::StatusOr<ValueId> Part(ValueId whole, int axis, int64_t begin, int64_t end, const std::string& suffix);
  absl::StatusOr<ValueId> PartGradient(ValueId gradient, const Shape& whole, int axis, int64_t begin,
                                       const std::string& suffix);
  absl::StatusOr<ValueId> RoundNumber(int64_t round);
  // A mask that says where integers equal a number, or are above it.
  absl::StatusOr<ValueId> Equals(ValueId integers, int64_t value, const std::string& suffix);
  absl::StatusOr<ValueId> IsAbove(ValueId integers, int64_t value, const std::string& suffix);
  // A mask that says where a count is above the number of the round.
  absl::StatusOr<ValueId> InCount(ValueId count, ValueId round, const std::string& suffix);
  // A mask that says where a condition holds and the mask before, if there is one, does.
  absl::StatusOr<ValueId> StillHolds(ValueId condition, ValueId before, const std::string& suffix);
  absl::StatusOr<ValueId> Choose(ValueId mask, ValueId a, ValueId b, const std::string& suffix);
  absl::StatusOr<ValueId> Keep(ValueId mask, ValueId x, const std::string& suffix);
  absl::StatusOr<ValueId> Gate(ValueId x, ValueId mask, const std::string& suffix);
  absl::StatusOr<ValueId> StopGradient(ValueId x, const std::string& suffix);
  absl::StatusOr<ValueId> Fill(DType dtype, const Shape& shape, double value, const std::string& suffix);
  absl::StatusOr<ValueId> Reshape(ValueId x, const Shape& shape, const std::string& suffix);
  absl::StatusOr<ValueId> Cast(ValueId x, DType dtype, const std::string& suffix);
  absl::StatusOr<ValueId> Sum(std::vector<ValueId> parts, const std::string& suffix);
  absl::StatusOr<ValueId> AddOne(absl::string_view op, std::vector<ValueId> inputs, Options options,
                                 const std::string& suffix);
  // NaN in the place of x where the mask counts, or where it does not. Integers stay as they are.
  absl::StatusOr<ValueId> Spoil(ValueId mask, ValueId x, const std::string& suffix);
  absl::StatusOr<ValueId> SpoilRest(ValueId mask, ValueId x, const std::string& suffix);

 private:
  absl::StatusOr<std::vector<ValueId>> Add(absl::string_view op, std::vector<ValueId> inputs, Options options,
                                           const std::string& suffix);
  absl::StatusOr<ValueId> NanLike(ValueId x, const std::string& suffix);

  GraphBuilder& builder_;
  const std::string name_;
  const SourceLoc loc_;
  const Phase phase_;
};

}  // namespace snug::core
