#include "ops/kernels/reduce/reduce.h"

#include <absl/strings/str_cat.h>

#include "engine/base/error_part.h"
#include "engine/base/status.h"
#include "ops/kernels/copy/reshape_to.h"
#include "ops/kernels/reduce/cuda.h"
#include "ops/kernels/reduce/options.h"
#include "ops/kit/options.h"
#include "ops/node_types.h"
#include "proto/internal.pb.h"
#include "proto/network.pb.h"
#include "proto/options.h"

namespace snug::core {

ReducePlan::ReducePlan(const ValueType& x, const std::array<bool, kMaxRank>& reduced, const Strides& y_strides) {
  const Strides x_strides = x.strides();
  const auto order = MemoryOrder(x);
  inner_kept = false;
  for (int i = 0; i < x.shape.rank(); ++i) {
    const auto axis = static_cast<size_t>(order[static_cast<size_t>(i)]);
    const int64_t dim = x.shape[static_cast<int>(axis)];
    if (reduced[axis]) {
      reduced_x.Append(dim, x_strides[axis]);
    } else {
      kept_x.Append(dim, x_strides[axis]);
      kept_y.Append(dim, y_strides[axis]);
    }
    if (dim > 1) inner_kept = !reduced[axis];
  }
}

ReducePlan PlanSumToShape(const ValueType& x, const ValueType& y) {
  const Strides own = y.strides();
  std::array<bool, kMaxRank> reduced = {};
  Strides aligned = {};
  const int shift = x.shape.rank() - y.shape.rank();
  for (int axis = 0; axis < x.shape.rank(); ++axis) {
    const int from = axis - shift;
    reduced[static_cast<size_t>(axis)] = from < 0 || (y.shape[from] == 1 && x.shape[axis] != 1);
    if (from >= 0) aligned[static_cast<size_t>(axis)] = own[static_cast<size_t>(from)];
  }
  return ReducePlan(x, reduced, aligned);
}

namespace {

// Returns the shape with every reduced axis of size 1.
Shape ShapeWithKeptDims(const Shape& shape, const std::array<bool, kMaxRank>& reduced) {
  Shape result = shape;
  for (int axis = 0; axis < shape.rank(); ++axis) {
    if (reduced[static_cast<size_t>(axis)]) result[axis] = 1;
  }
  return result;
}

}  // namespace

absl::StatusOr<std::array<bool, kMaxRank>> ReducedAxes(const proto::Reduce& options, int rank) {
  std::array<bool, kMaxRank> reduced = {};
  for (const int64_t axis : options.axis()) {
    const absl::StatusOr<int> normalized = NormalizeAxis(axis, rank);
    if (!normalized.ok()) return OptionError("axis", normalized.status().message());
    bool& found = reduced[static_cast<size_t>(*normalized)];
    if (found) return OptionError("axis", absl::StrCat("axis ", axis, " is named twice"));
    found = true;
  }
  if (options.axis().empty()) reduced.fill(true);
  return reduced;
}

absl::StatusOr<ValueType> ReducedType(const ValueType& x, const proto::Reduce& options) {
  SNUG_ASSIGN_OR_RETURN(const auto reduced, ReducedAxes(options, x.shape.rank()));
  if (options.keep_dims()) return ValueType{x.dtype, ShapeWithKeptDims(x.shape, reduced), x.layout};
  ValueType y{x.dtype, {}, {}};
  for (int axis = 0; axis < x.shape.rank(); ++axis) {
    if (!reduced[static_cast<size_t>(axis)]) y.shape.Append(x.shape[axis]);
  }
  return y;
}

absl::Status InferReduce(InferContext& c) {
  SNUG_ASSIGN_OR_RETURN(ValueType y, ReducedType(c.input(0), c.options<proto::Reduce>()));
  c.SetOutput(0, std::move(y));
  return absl::OkStatus();
}

ReducePlan PlanReduce(const ValueType& x, const ValueType& y, const proto::Reduce& options) {
  const auto reduced = *ReducedAxes(options, x.shape.rank());  // inference has checked them
  const Strides own = y.strides();
  Strides strides = {};
  for (int axis = 0, from = 0; axis < x.shape.rank(); ++axis) {
    const auto a = static_cast<size_t>(axis);
    if (!reduced[a]) strides[a] = own[static_cast<size_t>(from)];
    if (!reduced[a] || options.keep_dims()) ++from;
  }
  return ReducePlan(x, reduced, strides);
}

ReducePlan PlanReduceNode(const NodeTypes& types) {
  return PlanReduce(types.input(0), types.output(0), types.options.Get<proto::Reduce>());
}

double ShareInMean(const ValueType& x, const ValueType& y) {
  return static_cast<double>(y.num_elements()) / static_cast<double>(x.num_elements());
}

absl::Status PrepareReduceNodeCuda(PrepareContext& c) {
  PrepareReduceCuda(c, PlanReduceNode(c.types()));
  return absl::OkStatus();
}

ValueId RepeatToInput(GradContext& g, ValueId grad) {
  const Shape& shape = g.input_type(0).shape;
  const auto reduced = *ReducedAxes(g.options<proto::Reduce>(), shape.rank());
  const Shape kept = ShapeWithKeptDims(shape, reduced);
  proto::ShapeOf target;
  SetShapeOption(shape, &target);
  if (g.status().ok() && !(g.type(grad).shape == kept)) grad = ops::ReshapeTo(g, grad, kept);
  return g.Op("broadcast_to", {grad}, proto::MakeOptions(target));
}

void AddReduceSamples(SampleBuilder& s) {
  using proto::ParseOptions;
  s.Case("all").Input({5, 7}).Distinct();
  s.Case("all_kept").With(ParseOptions<proto::Reduce>("keep_dims: true")).Input({2, 3, 4, 5}).Distinct();
  s.Case("last").With(ParseOptions<proto::Reduce>("axis: -1")).Input({5, 70}).Distinct();
  s.Case("first").With(ParseOptions<proto::Reduce>("axis: 0")).Input({70, 19}).Distinct();
  s.Case("middle").With(ParseOptions<proto::Reduce>("axis: 1")).Input({3, 4, 5}).Distinct();
  s.Case("spatial").With(ParseOptions<proto::Reduce>("axis: [2, 3] keep_dims: true")).Input({2, 3, 4, 5}).Distinct();
  s.Case("channels").With(ParseOptions<proto::Reduce>("axis: [0, 2, 3]")).Input({2, 3, 4, 5}).Distinct();
  s.Case("every_other").With(ParseOptions<proto::Reduce>("axis: [-3, -1]")).Input({3, 2, 5, 7}).Distinct();
  s.Case("one_channel").With(ParseOptions<proto::Reduce>("axis: 1")).Input({2, 1, 4, 5}).Distinct();
  // What CUDA reads 16 bytes at a time: rows, and columns.
  s.Case("rows_of_packs").With(ParseOptions<proto::Reduce>("axis: -1")).Input({5, 64}).Distinct();
  s.Case("columns_of_packs").With(ParseOptions<proto::Reduce>("axis: 0")).Input({40, 32}).Distinct();
  s.Case("many_short_rows").With(ParseOptions<proto::Reduce>("axis: 1")).Input({700, 8}).NoGradient();
  s.Case("every_other_of_packs").With(ParseOptions<proto::Reduce>("axis: [-3, -1]")).Input({3, 2, 5, 16}).Distinct();
  s.Case("others_of_packs").With(ParseOptions<proto::Reduce>("axis: [0, 2]")).Input({3, 2, 5, 16}).Distinct();
  s.Case("in_parts").Input({300, 250}).NoGradient();
  s.Case("rows_in_parts").With(ParseOptions<proto::Reduce>("axis: 1")).Input({2, 40000}).NoGradient();
  s.Case("columns_in_parts").With(ParseOptions<proto::Reduce>("axis: 0")).Input({3000, 16}).NoGradient();
  s.Case("bad_axis")
      .With(ParseOptions<proto::Reduce>("axis: 2"))
      .Input({5, 7})
      .Fails("axis 2: expected between -2 and 1");
  s.Case("twice").With(ParseOptions<proto::Reduce>("axis: [1, -1]")).Input({5, 7}).Fails("axis -1 is named twice");
}

}  // namespace snug::core
