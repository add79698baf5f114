#include "engine/compile/control/control_nodes.h"

#include <absl/strings/str_cat.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "engine/base/status.h"
#include "proto/data_type.h"
#include "proto/internal.pb.h"
#include "proto/network.pb.h"
#include "proto/options.h"

namespace snug::core {

absl::StatusOr<std::vector<ValueId>> ControlNodes::Add(absl::string_view op, std::vector<ValueId> inputs,
                                                       Options options, const std::string& suffix) {
  const Node& of = builder_.graph().node(of_);
  NodeSpec spec{.name = absl::StrCat(of.name, "/", suffix),
                .op = std::string(op),
                .options = std::move(options),
                .inputs = std::move(inputs),
                .loc = of.loc};
  const std::string name = spec.name;
  absl::StatusOr<NodeId> node = builder_.Add(std::move(spec));
  if (!node.ok()) return Annotate(node.status(), absl::StrCat("node \"", name, "\" (", op, ")"));
  return builder_.graph().node(*node).outputs;
}

absl::StatusOr<ValueId> ControlNodes::AddOne(absl::string_view op, std::vector<ValueId> inputs, Options options,
                                             const std::string& suffix) {
  SNUG_ASSIGN_OR_RETURN(const std::vector<ValueId> outputs, Add(op, std::move(inputs), std::move(options), suffix));
  return outputs[0];
}

absl::StatusOr<ValueId> ControlNodes::Reshape(ValueId x, const std::vector<int64_t>& dims, const std::string& suffix) {
  proto::ShapeOf shape;
  for (const int64_t dim : dims) shape.add_dim(dim);
  return AddOne("reshape_to", {x}, proto::MakeOptions(shape), suffix);
}

// Along axis 0 a slice is some of the whole's rows and needs no shape of its own: then its gradient, or what is
// collected, can be written where the whole needs it.
absl::StatusOr<std::vector<ValueId>> ControlNodes::Slices(ValueId whole, int axis, bool reverse,
                                                          const std::string& suffix) {
  std::vector<int64_t> dims(type(whole).shape.dims().begin(), type(whole).shape.dims().end());
  const int64_t count = dims[static_cast<size_t>(axis)];
  dims.erase(dims.begin() + axis);
  const bool by_rows = axis == 0 && !dims.empty();
  const int64_t size = by_rows ? dims[0] : 1;
  if (by_rows) {
    std::vector<int64_t> rows = dims;
    rows[0] *= count;
    SNUG_ASSIGN_OR_RETURN(whole, Reshape(whole, rows, absl::StrCat(suffix, "/rows")));
  }
  proto::Split split;
  split.set_axis(axis);
  for (int64_t i = 0; i < count; ++i) split.add_size(size);
  SNUG_ASSIGN_OR_RETURN(std::vector<ValueId> slices, Add("split", {whole}, proto::MakeOptions(split), suffix));
  for (size_t i = 0; i < slices.size() && !by_rows; ++i) {
    SNUG_ASSIGN_OR_RETURN(slices[i], Reshape(slices[i], dims, absl::StrCat(suffix, "/", i)));
  }
  if (reverse) std::reverse(slices.begin(), slices.end());
  return slices;
}

absl::StatusOr<ValueId> ControlNodes::Collect(std::vector<ValueId> parts, int axis, bool reverse,
                                              const std::string& suffix) {
  std::vector<int64_t> dims(type(parts[0]).shape.dims().begin(), type(parts[0]).shape.dims().end());
  const bool by_rows = axis == 0 && !dims.empty();
  dims.insert(dims.begin() + axis, 1);
  for (size_t i = 0; i < parts.size() && !by_rows; ++i) {
    SNUG_ASSIGN_OR_RETURN(parts[i], Reshape(parts[i], dims, absl::StrCat(suffix, "/", i)));
  }
  dims[static_cast<size_t>(axis)] = static_cast<int64_t>(parts.size());
  if (reverse) std::reverse(parts.begin(), parts.end());
  ValueId whole = parts[0];
  if (parts.size() > 1) {
    proto::Concat concat;
    concat.set_axis(axis);
    SNUG_ASSIGN_OR_RETURN(whole, AddOne("concat", std::move(parts), proto::MakeOptions(concat),
                                        by_rows ? absl::StrCat(suffix, "/rows") : suffix));
  }
  return by_rows ? Reshape(whole, dims, suffix) : whole;
}

absl::StatusOr<ValueId> ControlNodes::Fill(DType dtype, const Shape& shape, double value, const std::string& suffix) {
  proto::Fill fill;
  for (const int64_t dim : shape.dims()) fill.add_dim(dim);
  fill.set_dtype(proto::FromDType(dtype));
  fill.set_value(value);
  return AddOne("fill", {}, proto::MakeOptions(fill), suffix);
}

absl::StatusOr<ValueId> ControlNodes::RoundNumber(int64_t round) {
  return Fill(DType::kInt32, Shape({}), static_cast<double>(round), absl::StrCat(round, "/index"));
}

absl::StatusOr<ValueId> ControlNodes::Equals(ValueId integers, int64_t value, const std::string& suffix) {
  proto::Compare compare;
  compare.set_value(value);
  return AddOne("compare", {integers}, proto::MakeOptions(compare), suffix);
}

absl::StatusOr<ValueId> ControlNodes::IsAbove(ValueId integers, int64_t value, const std::string& suffix) {
  proto::Compare compare;
  compare.set_kind(proto::Compare::GREATER);
  compare.set_value(value);
  return AddOne("compare", {integers}, proto::MakeOptions(compare), suffix);
}

absl::StatusOr<ValueId> ControlNodes::StillHolds(ValueId condition, ValueId before, const std::string& suffix) {
  return AddOne("still_holds", {condition, before}, {}, suffix);
}

absl::StatusOr<ValueId> ControlNodes::Choose(ValueId mask, ValueId a, ValueId b, const std::string& suffix) {
  return AddOne("choose", {mask, a, b}, {}, suffix);
}

absl::StatusOr<ValueId> ControlNodes::Keep(ValueId mask, ValueId x, const std::string& suffix) {
  return AddOne("keep", {mask, x}, {}, suffix);
}

absl::StatusOr<ValueId> ControlNodes::Gate(ValueId x, ValueId mask, const std::string& suffix) {
  return AddOne("gate", {x, mask}, {}, suffix);
}

absl::StatusOr<ValueId> ControlNodes::StopGradient(ValueId x, const std::string& suffix) {
  return AddOne("stop_gradient", {x}, {}, suffix);
}

absl::StatusOr<ValueId> ControlNodes::NanLike(ValueId x, const std::string& suffix) {
  return Fill(type(x).dtype, type(x).shape, std::numeric_limits<double>::quiet_NaN(), absl::StrCat(suffix, "/nan"));
}

absl::StatusOr<ValueId> ControlNodes::Spoil(ValueId mask, ValueId x, const std::string& suffix) {
  if (!IsFloating(type(x).dtype)) return x;
  SNUG_ASSIGN_OR_RETURN(const ValueId nan, NanLike(x, suffix));
  return Choose(mask, nan, x, suffix);
}

absl::StatusOr<ValueId> ControlNodes::SpoilRest(ValueId mask, ValueId x, const std::string& suffix) {
  if (!IsFloating(type(x).dtype)) return x;
  SNUG_ASSIGN_OR_RETURN(const ValueId nan, NanLike(x, suffix));
  return Choose(mask, x, nan, suffix);
}

}  // namespace snug::core
