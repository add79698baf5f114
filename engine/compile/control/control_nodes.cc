#include "engine/compile/control/control_nodes.h"

#include <absl/strings/str_cat.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "engine/base/status.h"
#include "ops/slice_box.h"
#include "proto/data_type.h"
#include "proto/internal.pb.h"
#include "proto/network.pb.h"
#include "proto/options.h"

namespace snug::core {

absl::StatusOr<std::vector<ValueId>> ControlNodes::Add(absl::string_view op, std::vector<ValueId> inputs,
                                                       Options options, const std::string& suffix) {
  NodeSpec spec{.name = name_.empty() ? suffix : absl::StrCat(name_, "/", suffix),
                .op = std::string(op),
                .options = std::move(options),
                .inputs = std::move(inputs),
                .loc = loc_,
                .phase = phase_};
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

absl::StatusOr<ValueId> ControlNodes::Reshape(ValueId x, const Shape& to, const std::string& suffix) {
  proto::ShapeOf shape;
  for (const int64_t dim : to.dims()) shape.add_dim(dim);
  return AddOne("reshape_to", {x}, proto::MakeOptions(shape), suffix);
}

// Along axis 0 a slice is some of the whole's rows and needs no shape of its own: then its gradient, or what is
// collected, can be written where the whole needs it.
absl::StatusOr<std::vector<ValueId>> ControlNodes::Slices(ValueId whole, int axis, const std::string& suffix) {
  const int64_t count = type(whole).shape[axis];
  const Shape slice = type(whole).shape.Without(axis);
  const bool by_rows = axis == 0 && slice.rank() > 0;
  if (by_rows) {
    SNUG_ASSIGN_OR_RETURN(whole, Reshape(whole, slice.WithDim(0, slice[0] * count), absl::StrCat(suffix, "/rows")));
  }
  proto::Split split;
  split.set_axis(axis);
  for (int64_t i = 0; i < count; ++i) split.add_size(by_rows ? slice[0] : 1);
  SNUG_ASSIGN_OR_RETURN(std::vector<ValueId> slices, Add("split", {whole}, proto::MakeOptions(split), suffix));
  for (size_t i = 0; i < slices.size() && !by_rows; ++i) {
    SNUG_ASSIGN_OR_RETURN(slices[i], Reshape(slices[i], slice, absl::StrCat(suffix, "/", i)));
  }
  return slices;
}

absl::StatusOr<std::vector<ValueId>> ControlNodes::Cuts(ValueId whole, int axis, int64_t places, int64_t count,
                                                        bool from_end, const std::string& suffix) {
  const int64_t rest = type(whole).shape[axis] - count * places;
  if (rest == 0 && count == 1) return std::vector<ValueId>{whole};
  proto::Split split;
  split.set_axis(axis);
  if (rest > 0 && from_end) split.add_size(rest);
  for (int64_t i = 0; i < count; ++i) split.add_size(places);
  if (rest > 0 && !from_end) split.add_size(rest);
  SNUG_ASSIGN_OR_RETURN(std::vector<ValueId> cuts, Add("split", {whole}, proto::MakeOptions(split), suffix));
  if (rest > 0) cuts.erase(from_end ? cuts.begin() : cuts.end() - 1);
  return cuts;
}

absl::StatusOr<ValueId> ControlNodes::Slice(ValueId whole, int axis, int64_t place, const std::string& suffix) {
  const Shape shape = type(whole).shape;
  SNUG_ASSIGN_OR_RETURN(const ValueId part, Part(whole, axis, place, place + 1, absl::StrCat(suffix, "/slice")));
  return Reshape(part, shape.Without(axis), suffix);
}

absl::StatusOr<ValueId> ControlNodes::Part(ValueId whole, int axis, int64_t begin, int64_t end,
                                           const std::string& suffix) {
  return AddOne("slice", {whole}, proto::MakeOptions(SliceAlong(axis, begin, end - begin)), suffix);
}

absl::StatusOr<ValueId> ControlNodes::PartGradient(ValueId gradient, const Shape& whole, int axis, int64_t begin,
                                                   const std::string& suffix) {
  proto::SliceGrad options;
  *options.mutable_slice() = SliceAlong(axis, begin, type(gradient).shape[axis]);
  for (const int64_t dim : whole.dims()) options.add_dim(dim);
  return AddOne("slice_grad", {gradient}, proto::MakeOptions(options), suffix);
}

absl::StatusOr<ValueId> ControlNodes::Join(std::vector<ValueId> parts, int axis, const std::string& suffix) {
  if (parts.size() == 1) return parts[0];
  proto::Concat concat;
  concat.set_axis(axis);
  return AddOne("concat", std::move(parts), proto::MakeOptions(concat), suffix);
}

absl::StatusOr<ValueId> ControlNodes::Collect(std::vector<ValueId> parts, int axis, const std::string& suffix) {
  const Shape part = type(parts[0]).shape;
  const bool by_rows = axis == 0 && part.rank() > 0;
  const auto with_axis = [&](int64_t count) {
    Shape shape;
    for (int i = 0; i <= part.rank(); ++i) shape.Append(i < axis ? part[i] : i == axis ? count : part[i - 1]);
    return shape;
  };
  const auto count = static_cast<int64_t>(parts.size());
  for (size_t i = 0; i < parts.size() && !by_rows; ++i) {
    SNUG_ASSIGN_OR_RETURN(parts[i], Reshape(parts[i], with_axis(1), absl::StrCat(suffix, "/", i)));
  }
  SNUG_ASSIGN_OR_RETURN(const ValueId whole,
                        Join(std::move(parts), axis, by_rows ? absl::StrCat(suffix, "/rows") : suffix));
  return by_rows ? Reshape(whole, with_axis(count), suffix) : whole;
}

absl::StatusOr<ValueId> ControlNodes::InCount(ValueId count, ValueId round, const std::string& suffix) {
  return AddOne("in_count", {count, round}, {}, suffix);
}

absl::StatusOr<ValueId> ControlNodes::Cast(ValueId x, DType dtype, const std::string& suffix) {
  return AddOne("cast", {x}, proto::CastTo(dtype), suffix);
}

absl::StatusOr<ValueId> ControlNodes::Sum(std::vector<ValueId> parts, const std::string& suffix) {
  return AddOne("add_n", std::move(parts), {}, suffix);
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
