// What follows from constants and shapes alone is computed while the model is imported: exporters write the sizes of a
// reshape as a dozen of nodes, and masks and positions as many more.
#include "interchange/import/fold.h"

#include <absl/strings/str_cat.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <optional>
#include <utility>

#include "engine/base/status.h"
#include "interchange/import/arrangements.h"
#include "interchange/onnx.pb.h"

namespace snug::core::onnx {
namespace {

using snug::proto::onnx::TensorProto;

// Whole numbers that have fewer bits are cut to them.
template <class T>
absl::StatusOr<Tensor> CutTo(const Tensor& t) {
  const Tensor whole = t.As(Kind::kInt);
  std::vector<double> values;
  for (const int64_t n : whole.ints()) values.push_back(static_cast<double>(static_cast<T>(n)));
  return Tensor::Make(Kind::kInt, whole.dims(), whole.stored(), values);
}

absl::StatusOr<Tensor> FoldCast(NodeContext& c, const Inputs& in) {
  SNUG_ASSIGN_OR_RETURN(const int64_t to, c.Int("to", 0));
  c.Ignore("saturate");
  switch (to) {
    case TensorProto::FLOAT:
    case TensorProto::DOUBLE:
    case TensorProto::FLOAT16:
    case TensorProto::BFLOAT16:
      return in[0]->As(Kind::kFloat);
    case TensorProto::BOOL:
      return in[0]->As(Kind::kBool);
    case TensorProto::INT8:
      return CutTo<int8_t>(*in[0]);
    case TensorProto::UINT8:
      return CutTo<uint8_t>(*in[0]);
    case TensorProto::INT16:
      return CutTo<int16_t>(*in[0]);
    case TensorProto::UINT16:
      return CutTo<uint16_t>(*in[0]);
    case TensorProto::INT32:
      return CutTo<int32_t>(*in[0]);
    case TensorProto::UINT32:
      return CutTo<uint32_t>(*in[0]);
    case TensorProto::INT64:
    case TensorProto::UINT64:
      return in[0]->As(Kind::kInt);
    default:
      return absl::InvalidArgumentError(absl::StrCat("casts to type number ", to, ", which is not read"));
  }
}

absl::StatusOr<Tensor> FoldReshape(NodeContext& c, const Inputs& in) {
  SNUG_ASSIGN_OR_RETURN(const Dims dims, ReshapeDims(c, in[0]->dims()));
  return in[0]->Reshaped(dims);
}

absl::StatusOr<Tensor> FoldExpand(NodeContext& c, const Inputs& in) {
  SNUG_ASSIGN_OR_RETURN(Dims dims, c.ListInput(1, "shape"));
  SNUG_ASSIGN_OR_RETURN(dims, BroadcastDims(dims, in[0]->dims()));
  return in[0]->BroadcastTo(dims);
}

absl::StatusOr<Tensor> FoldTranspose(NodeContext& c, const Inputs& in) {
  SNUG_ASSIGN_OR_RETURN(const std::vector<int> axes, PermutationOf(c, in[0]->rank()));
  return in[0]->Transposed(axes);
}

absl::StatusOr<Tensor> FoldUnsqueeze(NodeContext& c, const Inputs& in) {
  SNUG_ASSIGN_OR_RETURN(const Dims dims, UnsqueezedDims(c, in[0]->dims()));
  return in[0]->Reshaped(dims);
}

absl::StatusOr<Tensor> FoldSqueeze(NodeContext& c, const Inputs& in) {
  SNUG_ASSIGN_OR_RETURN(const Dims dims, SqueezedDims(c, in[0]->dims()));
  return in[0]->Reshaped(dims);
}

absl::StatusOr<Tensor> FoldFlatten(NodeContext& c, const Inputs& in) {
  SNUG_ASSIGN_OR_RETURN(const Dims dims, FlattenedDims(c, in[0]->dims()));
  return in[0]->Reshaped(dims);
}

absl::StatusOr<Tensor> FoldConstantOfShape(NodeContext& c, const Inputs&) {
  SNUG_ASSIGN_OR_RETURN(const Dims dims, c.ListInput(0, "shape"));
  SNUG_RETURN_IF_ERROR(CountElements(dims).status());
  Tensor value = Tensor::Scalar(0);
  if (c.HasAttribute("value")) {
    SNUG_ASSIGN_OR_RETURN(value, c.TensorAttribute("value"));
    if (value.stored_count() != 1) return absl::InvalidArgumentError("attribute \"value\": expected one number");
  }
  if (std::find(dims.begin(), dims.end(), 0) != dims.end()) return Tensor::Make(value.kind(), dims, dims, {});
  SNUG_ASSIGN_OR_RETURN(value, value.Reshaped(Dims(dims.size(), 1)));
  return value.BroadcastTo(dims);
}

absl::StatusOr<Tensor> FoldRange(NodeContext&, const Inputs& in) {
  if (in.size() != 3) return absl::InvalidArgumentError("expected 3 inputs");
  for (const Tensor* input : in) {
    if (input->stored_count() != 1) return absl::InvalidArgumentError("expected single numbers");
  }
  const double start = in[0]->scalar(), limit = in[1]->scalar(), delta = in[2]->scalar();
  if (delta == 0) return absl::InvalidArgumentError("input 2: expected another step than 0");
  const double count = std::max(0., std::ceil((limit - start) / delta));
  if (!(count <= static_cast<double>(kMaxFoldedElements))) return absl::InvalidArgumentError("is too long");
  const auto n = static_cast<int64_t>(count);
  std::vector<double> values;
  for (int64_t i = 0; i < n; ++i) values.push_back(start + static_cast<double>(i) * delta);
  return Tensor::Make(in[0]->kind(), {n}, {n}, values);
}

absl::StatusOr<Tensor> FoldSize(NodeContext&, const Inputs& in) {
  SNUG_ASSIGN_OR_RETURN(const int64_t count, CountElements(in[0]->dims()));
  return Tensor::Ints({}, {count});
}

absl::StatusOr<Tensor> FoldShape(NodeContext& c) {
  const Dims& dims = c.input(0).dims();
  const auto rank = static_cast<int64_t>(dims.size());
  SNUG_ASSIGN_OR_RETURN(int64_t start, c.Int("start", 0));
  SNUG_ASSIGN_OR_RETURN(int64_t end, c.Int("end", rank));
  const auto clamped = [rank](int64_t i) { return std::clamp<int64_t>(i < 0 ? i + rank : i, 0, rank); };
  start = clamped(start);
  end = std::max(start, clamped(end));
  Dims part(dims.begin() + start, dims.begin() + end);
  const auto count = static_cast<int64_t>(part.size());
  return Tensor::Ints({count}, std::move(part));
}

absl::StatusOr<Tensor> FoldConstant(NodeContext& c) {
  if (c.HasAttribute("value")) return c.TensorAttribute("value");
  if (c.HasAttribute("value_float")) {
    SNUG_ASSIGN_OR_RETURN(const double value, c.Float("value_float", 0));
    return Tensor::Scalar(static_cast<float>(value));
  }
  if (c.HasAttribute("value_int")) {
    SNUG_ASSIGN_OR_RETURN(const int64_t value, c.Int("value_int", 0));
    return Tensor::Ints({}, {value});
  }
  if (c.HasAttribute("value_ints")) {
    SNUG_ASSIGN_OR_RETURN(std::vector<int64_t> values, c.Ints("value_ints"));
    const auto count = static_cast<int64_t>(values.size());
    return Tensor::Ints({count}, std::move(values));
  }
  if (const proto::onnx::AttributeProto* list = c.Find("value_floats"); list != nullptr) {
    return Tensor::Floats({list->floats_size()}, {list->floats().begin(), list->floats().end()});
  }
  return absl::InvalidArgumentError("has no value that is read: a tensor, or numbers");
}

// PyTorch writes one initializer for several that are equal, and an Identity with the name that each had.
absl::StatusOr<Tensor> FoldIdentity(NodeContext& c, const Inputs& in) {
  Tensor t = *in[0];
  if (t.is_weight && c.node().output_size() > 0 && c.node().output(0).find('.') != std::string::npos &&
      c.node().output(0).find('/') == std::string::npos) {
    t.name = c.node().output(0);
  }
  return t;
}

using OneTensor = absl::StatusOr<Tensor> (*)(NodeContext&, const Inputs&);
const std::map<std::string, OneTensor>& Rearrangements() {
  static const auto& all = *new std::map<std::string, OneTensor>{
      {"Cast", FoldCast},
      {"Concat", FoldConcat},
      {"ConstantOfShape", FoldConstantOfShape},
      {"CumSum", FoldCumSum},
      {"Div", FoldDivide},
      {"Dropout", FoldIdentity},
      {"Expand", FoldExpand},
      {"Flatten", FoldFlatten},
      {"Gather", FoldGather},
      {"GatherElements", FoldGatherElements},
      {"GatherND", FoldGatherNd},
      {"Identity", FoldIdentity},
      {"Mod", FoldMod},
      {"Range", FoldRange},
      {"Reshape", FoldReshape},
      {"ScatterND", FoldScatterNd},
      {"Size", FoldSize},
      {"Slice", FoldSlice},
      {"Squeeze", FoldSqueeze},
      {"Tile", FoldTile},
      {"Transpose", FoldTranspose},
      {"Trilu", FoldTrilu},
      {"Unsqueeze", FoldUnsqueeze},
      {"Where", FoldWhere},
  };
  return all;
}

}  // namespace

absl::StatusOr<Folded> Fold(NodeContext& c) {
  const auto one = [](absl::StatusOr<Tensor> t) -> absl::StatusOr<Folded> {
    if (!t.ok()) return t.status();
    return Folded{true, {*std::move(t)}};
  };
  const std::string& op = c.op();
  if (op == "Constant") return one(FoldConstant(c));
  if (c.num_inputs() == 0 || !c.has(0)) return Folded();
  if (op == "Shape") return one(FoldShape(c));
  if (op == "Size" && !c.input(0).constant.has_value()) {
    SNUG_ASSIGN_OR_RETURN(const int64_t count, CountElements(c.input(0).dims()));
    return one(Tensor::Ints({}, {count}));
  }
  Inputs in;
  for (int i = 0; i < c.num_inputs(); ++i) {
    if (c.has(i)) in.push_back(&*c.input(i).constant);
  }
  if (op == "Split") {
    SNUG_ASSIGN_OR_RETURN(std::vector<Tensor> parts, FoldSplit(c, in));
    return Folded{true, std::move(parts)};
  }
  const auto rearrangement = Rearrangements().find(op);
  if (rearrangement != Rearrangements().end()) return one(rearrangement->second(c, in));
  const auto function = Functions().find(op);
  if (function != Functions().end()) return one(FoldFunction(function->second, in));
  SNUG_ASSIGN_OR_RETURN(std::optional<Tensor> reduced, FoldReduction(c, in));
  if (reduced.has_value()) return one(*std::move(reduced));
  return Folded();
}

}  // namespace snug::core::onnx
