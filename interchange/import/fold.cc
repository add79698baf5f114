// What follows from constants and shapes alone is computed while the model is imported: exporters write the sizes of a
// reshape as a dozen of nodes, and masks and positions as many more.
#include <absl/strings/str_cat.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <utility>

#include "engine/base/status.h"
#include "interchange/import/arrangements.h"
#include "interchange/import/node.h"
#include "interchange/onnx.pb.h"

namespace snug::core::onnx {
namespace {

using snug::proto::onnx::TensorProto;

absl::Status CheckCount(const Dims& dims) {
  SNUG_ASSIGN_OR_RETURN(const int64_t count, CountElements(dims));
  if (count > kMaxFoldedElements) {
    return absl::InvalidArgumentError(absl::StrCat("a constant of shape ", DimsText(dims), " is too large"));
  }
  return absl::OkStatus();
}

// A rearrangement of an initializer is still that initializer.
Tensor Inherit(Tensor t, const Tensor& from) {
  t.name = from.name;
  t.is_weight = from.is_weight;
  return t;
}

// ---- element by element ----

using Function = std::function<double(const double* x)>;

absl::StatusOr<Tensor> Elementwise(const std::vector<const Tensor*>& inputs, Kind kind, const Function& f) {
  Dims dims, stored;
  bool weight = false;
  for (const Tensor* input : inputs) {
    SNUG_ASSIGN_OR_RETURN(dims, BroadcastDims(dims, input->dims()));
    weight = weight || input->is_weight;
  }
  if (std::find(dims.begin(), dims.end(), 0) != dims.end()) return Tensor::Make(kind, dims, dims, {});
  // Along an axis where one is stored once, and another has size 1, all is equal still.
  stored.assign(dims.size(), 1);
  for (const Tensor* input : inputs) {
    for (size_t i = 0; i < input->stored().size(); ++i) {
      int64_t& size = stored[dims.size() - input->stored().size() + i];
      size = std::max(size, input->stored()[i]);
    }
  }
  SNUG_RETURN_IF_ERROR(CheckCount(stored));
  SNUG_RETURN_IF_ERROR(CountElements(dims).status());
  int64_t count = 1;
  for (const int64_t size : stored) count *= size;
  std::vector<double> values(static_cast<size_t>(count));
  std::vector<double> x(inputs.size());
  std::vector<int64_t> at(stored.size(), 0);
  for (double& value : values) {
    for (size_t k = 0; k < inputs.size(); ++k) {
      const Dims& own = inputs[k]->stored();
      int64_t offset = 0;
      for (size_t i = 0; i < own.size(); ++i) {
        offset = offset * own[i] + (own[i] == 1 ? 0 : at[stored.size() - own.size() + i]);
      }
      x[k] = inputs[k]->Get(offset);
    }
    value = f(x.data());
    for (size_t a = stored.size(); a-- > 0;) {
      if (++at[a] < stored[a]) break;
      at[a] = 0;
    }
  }
  Tensor t = Tensor::Make(kind, dims, stored, values);
  t.is_weight = weight && t.stored_count() > 1;
  return t;
}

struct NamedFunction {
  int inputs;  // 0: any number, two at a time
  enum { kSame, kBool } result;
  Function f;
};

double IntDivide(double a, double b) { return b == 0 ? 0 : std::trunc(a / b); }

const std::map<std::string, NamedFunction>& Functions() {
  using N = NamedFunction;
  static const auto& functions = *new std::map<std::string, NamedFunction>{
      {"Add", {2, N::kSame, [](const double* x) { return x[0] + x[1]; }}},
      {"Sub", {2, N::kSame, [](const double* x) { return x[0] - x[1]; }}},
      {"Mul", {2, N::kSame, [](const double* x) { return x[0] * x[1]; }}},
      {"Pow", {2, N::kSame, [](const double* x) { return std::pow(x[0], x[1]); }}},
      {"Min", {0, N::kSame, [](const double* x) { return std::min(x[0], x[1]); }}},
      {"Max", {0, N::kSame, [](const double* x) { return std::max(x[0], x[1]); }}},
      {"Sum", {0, N::kSame, [](const double* x) { return x[0] + x[1]; }}},
      {"Neg", {1, N::kSame, [](const double* x) { return -x[0]; }}},
      {"Abs", {1, N::kSame, [](const double* x) { return std::fabs(x[0]); }}},
      {"Sqrt", {1, N::kSame, [](const double* x) { return std::sqrt(x[0]); }}},
      {"Exp", {1, N::kSame, [](const double* x) { return std::exp(x[0]); }}},
      {"Log", {1, N::kSame, [](const double* x) { return std::log(x[0]); }}},
      {"Sin", {1, N::kSame, [](const double* x) { return std::sin(x[0]); }}},
      {"Cos", {1, N::kSame, [](const double* x) { return std::cos(x[0]); }}},
      {"Tanh", {1, N::kSame, [](const double* x) { return std::tanh(x[0]); }}},
      {"Sigmoid", {1, N::kSame, [](const double* x) { return 1 / (1 + std::exp(-x[0])); }}},
      {"Reciprocal", {1, N::kSame, [](const double* x) { return 1 / x[0]; }}},
      {"Floor", {1, N::kSame, [](const double* x) { return std::floor(x[0]); }}},
      {"Ceil", {1, N::kSame, [](const double* x) { return std::ceil(x[0]); }}},
      {"Round", {1, N::kSame, [](const double* x) { return std::nearbyint(x[0]); }}},
      {"Sign", {1, N::kSame, [](const double* x) { return x[0] > 0   ? 1.
                                                          : x[0] < 0 ? -1.
                                                                     : 0.; }}},
      {"Relu", {1, N::kSame, [](const double* x) { return std::max(x[0], 0.); }}},
      {"Equal", {2, N::kBool, [](const double* x) { return x[0] == x[1] ? 1. : 0.; }}},
      {"Less", {2, N::kBool, [](const double* x) { return x[0] < x[1] ? 1. : 0.; }}},
      {"LessOrEqual", {2, N::kBool, [](const double* x) { return x[0] <= x[1] ? 1. : 0.; }}},
      {"Greater", {2, N::kBool, [](const double* x) { return x[0] > x[1] ? 1. : 0.; }}},
      {"GreaterOrEqual", {2, N::kBool, [](const double* x) { return x[0] >= x[1] ? 1. : 0.; }}},
      {"And", {2, N::kBool, [](const double* x) { return x[0] != 0 && x[1] != 0 ? 1. : 0.; }}},
      {"Or", {2, N::kBool, [](const double* x) { return x[0] != 0 || x[1] != 0 ? 1. : 0.; }}},
      {"Xor", {2, N::kBool, [](const double* x) { return (x[0] != 0) != (x[1] != 0) ? 1. : 0.; }}},
      {"Not", {1, N::kBool, [](const double* x) { return x[0] == 0 ? 1. : 0.; }}},
      {"IsNaN", {1, N::kBool, [](const double* x) { return std::isnan(x[0]) ? 1. : 0.; }}},
  };
  return functions;
}

absl::StatusOr<Tensor> FoldFunction(const NamedFunction& function, const std::vector<const Tensor*>& in) {
  const Kind kind = function.result == NamedFunction::kBool ? Kind::kBool : in[0]->kind();
  if (function.inputs != 0 && in.size() != static_cast<size_t>(function.inputs)) {
    return absl::InvalidArgumentError(absl::StrCat("expected ", function.inputs, " inputs, found ", in.size()));
  }
  if (function.inputs != 0) return Elementwise(in, kind, function.f);
  Tensor t = *in[0];
  for (size_t i = 1; i < in.size(); ++i) {
    SNUG_ASSIGN_OR_RETURN(t, Elementwise({&t, in[i]}, kind, function.f));
  }
  return t;
}

// ---- what rearranges ----

using Inputs = std::vector<const Tensor*>;

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
    case TensorProto::UINT8:
    case TensorProto::INT16:
    case TensorProto::UINT16:
    case TensorProto::INT32:
    case TensorProto::UINT32:
    case TensorProto::INT64:
    case TensorProto::UINT64:
      return in[0]->As(Kind::kInt);
    default:
      return absl::InvalidArgumentError(absl::StrCat("casts to type number ", to, ", which is not read"));
  }
}

// Chooses along an axis by number.
absl::StatusOr<Tensor> Take(const Tensor& x, int axis, const std::vector<int64_t>& indices, const Dims& index_dims) {
  SNUG_ASSIGN_OR_RETURN(const Tensor whole, x.stored()[static_cast<size_t>(axis)] == x.dims()[static_cast<size_t>(axis)]
                                                ? absl::StatusOr<Tensor>(x.OnlyStored())
                                                : x.Spread());
  const Dims& from = whole.stored();
  const auto a = static_cast<size_t>(axis);
  int64_t outer = 1, inner = 1;
  for (size_t i = 0; i < a; ++i) outer *= from[i];
  for (size_t i = a + 1; i < from.size(); ++i) inner *= from[i];
  Dims flat = {outer, static_cast<int64_t>(indices.size()), inner};
  SNUG_RETURN_IF_ERROR(CheckCount(flat));
  std::vector<float> floats;
  std::vector<int64_t> ints;
  for (int64_t o = 0; o < outer; ++o) {
    for (int64_t index : indices) {
      if (index < -from[a] || index >= from[a]) {
        return absl::InvalidArgumentError(absl::StrCat("index ", index, " of ", from[a], " along axis ", axis));
      }
      if (index < 0) index += from[a];
      const int64_t begin = (o * from[a] + index) * inner;
      for (int64_t i = begin; i < begin + inner; ++i) {
        if (x.is_float()) {
          floats.push_back(whole.floats()[static_cast<size_t>(i)]);
        } else {
          ints.push_back(whole.ints()[static_cast<size_t>(i)]);
        }
      }
    }
  }
  Dims stored(from.begin(), from.begin() + axis), dims(x.dims().begin(), x.dims().begin() + axis);
  stored.insert(stored.end(), index_dims.begin(), index_dims.end());
  dims.insert(dims.end(), index_dims.begin(), index_dims.end());
  stored.insert(stored.end(), from.begin() + axis + 1, from.end());
  dims.insert(dims.end(), x.dims().begin() + axis + 1, x.dims().end());
  Tensor t = x.is_float() ? Tensor::Floats(stored, std::move(floats)) : Tensor::Ints(stored, std::move(ints), x.kind());
  SNUG_ASSIGN_OR_RETURN(t, t.BroadcastTo(dims));
  return Inherit(std::move(t), x);
}

absl::StatusOr<Tensor> FoldGather(NodeContext& c, const Inputs& in) {
  if (in.size() < 2) return absl::InvalidArgumentError("expected 2 inputs");
  SNUG_ASSIGN_OR_RETURN(const int axis, c.AxisAttribute(0, in[0]->rank()));
  SNUG_ASSIGN_OR_RETURN(const Tensor indices, in[1]->Spread());
  if (indices.is_float()) return absl::InvalidArgumentError("expected integers as indices");
  return Take(*in[0], axis, indices.ints(), indices.dims());
}

absl::StatusOr<Tensor> FoldSlice(NodeContext& c, const Inputs& in) {
  SNUG_ASSIGN_OR_RETURN(const std::vector<SliceRange> ranges, SliceRanges(c, in[0]->dims()));
  Tensor t = *in[0];
  for (const SliceRange& range : ranges) {
    std::vector<int64_t> indices;
    for (int64_t i = 0; i < range.count; ++i) indices.push_back(range.begin + i * range.step);
    SNUG_ASSIGN_OR_RETURN(t, Take(t, range.axis, indices, {range.count}));
  }
  return t;
}

absl::StatusOr<Tensor> FoldConcat(NodeContext& c, const Inputs& in) {
  SNUG_ASSIGN_OR_RETURN(const int axis, c.AxisAttribute(0, in[0]->rank()));
  // One after the other along axis 0, after that axis was brought there.
  std::vector<int> to_front = {axis};
  for (int i = 0; i < in[0]->rank(); ++i) {
    if (i != axis) to_front.push_back(i);
  }
  std::vector<float> floats;
  std::vector<int64_t> ints;
  Dims dims;
  bool weight = false;
  for (const Tensor* input : in) {
    if (input->rank() != in[0]->rank() || input->is_float() != in[0]->is_float()) {
      return absl::InvalidArgumentError("its inputs have different ranks or types");
    }
    SNUG_ASSIGN_OR_RETURN(Tensor t, input->Spread());
    SNUG_ASSIGN_OR_RETURN(t, t.Transposed(to_front));
    if (t.is_float()) floats.insert(floats.end(), t.floats().begin(), t.floats().end());
    if (!t.is_float()) ints.insert(ints.end(), t.ints().begin(), t.ints().end());
    if (dims.empty()) {
      dims = t.dims();
    } else {
      if (Dims(dims.begin() + 1, dims.end()) != Dims(t.dims().begin() + 1, t.dims().end())) {
        return absl::InvalidArgumentError("its inputs have different shapes");
      }
      dims[0] += t.dims()[0];
    }
    weight = weight || input->is_weight;
  }
  SNUG_RETURN_IF_ERROR(CheckCount(dims));
  Tensor t =
      in[0]->is_float() ? Tensor::Floats(dims, std::move(floats)) : Tensor::Ints(dims, std::move(ints), in[0]->kind());
  std::vector<int> back(to_front.size());
  for (size_t i = 0; i < to_front.size(); ++i) back[static_cast<size_t>(to_front[i])] = static_cast<int>(i);
  SNUG_ASSIGN_OR_RETURN(t, t.Transposed(back));
  t.is_weight = weight;
  return t;
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

absl::StatusOr<Tensor> FoldTile(NodeContext& c, const Inputs& in) {
  SNUG_ASSIGN_OR_RETURN(const std::vector<int64_t> repeats, c.ListInput(1, "repeats"));
  if (repeats.size() != in[0]->dims().size()) return absl::InvalidArgumentError("expected a repeat for each axis");
  Tensor t = *in[0];
  for (int axis = 0; axis < t.rank(); ++axis) {
    const int64_t n = repeats[static_cast<size_t>(axis)], size = t.dims()[static_cast<size_t>(axis)];
    if (n < 0) return absl::InvalidArgumentError(absl::StrCat("repeats an axis ", n, " times"));
    if (n == 1) continue;
    if (size == 1) {  // it stays stored once
      Dims dims = t.dims();
      dims[static_cast<size_t>(axis)] = n;
      SNUG_ASSIGN_OR_RETURN(t, t.BroadcastTo(dims));
      continue;
    }
    SNUG_RETURN_IF_ERROR(CheckCount({n, std::max<int64_t>(size, 1)}));
    std::vector<int64_t> indices;
    for (int64_t i = 0; i < n * size; ++i) indices.push_back(i % size);
    SNUG_ASSIGN_OR_RETURN(t, Take(t, axis, indices, {n * size}));
  }
  return t;
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
  const double count = std::max(0., std::ceil((limit - start) / delta));
  if (!(count <= static_cast<double>(kMaxFoldedElements))) return absl::InvalidArgumentError("is too long");
  const auto n = static_cast<int64_t>(count);
  std::vector<double> values;
  for (int64_t i = 0; i < n; ++i) values.push_back(start + static_cast<double>(i) * delta);
  return Tensor::Make(in[0]->kind(), {n}, {n}, values);
}

absl::StatusOr<Tensor> FoldDivide(NodeContext&, const Inputs& in) {
  if (in.size() != 2) return absl::InvalidArgumentError("expected 2 inputs");
  const bool whole = !in[0]->is_float();
  return Elementwise(in, in[0]->kind(),
                     [whole](const double* x) { return whole ? IntDivide(x[0], x[1]) : x[0] / x[1]; });
}

absl::StatusOr<Tensor> FoldMod(NodeContext& c, const Inputs& in) {
  if (in.size() != 2) return absl::InvalidArgumentError("expected 2 inputs");
  SNUG_ASSIGN_OR_RETURN(const int64_t as_c, c.Int("fmod", 0));
  return Elementwise(in, in[0]->kind(), [as_c](const double* x) {
    if (x[1] == 0) return 0.;
    return as_c != 0 ? std::fmod(x[0], x[1]) : x[0] - x[1] * std::floor(x[0] / x[1]);
  });
}

absl::StatusOr<Tensor> FoldWhere(NodeContext&, const Inputs& in) {
  if (in.size() != 3) return absl::InvalidArgumentError("expected 3 inputs");
  return Elementwise(in, in[1]->kind(), [](const double* x) { return x[0] != 0 ? x[1] : x[2]; });
}

absl::StatusOr<Tensor> FoldTrilu(NodeContext& c, const Inputs& in) {
  SNUG_ASSIGN_OR_RETURN(const int64_t upper, c.Int("upper", 1));
  const int64_t k = in.size() > 1 && in[1]->stored_count() == 1 ? in[1]->ints().at(0) : 0;
  SNUG_ASSIGN_OR_RETURN(const Tensor x, in[0]->Spread());
  if (x.rank() < 2) return absl::InvalidArgumentError("expected matrices");
  const int64_t rows = x.dims()[static_cast<size_t>(x.rank() - 2)], columns = x.dims().back();
  std::vector<double> values(static_cast<size_t>(x.stored_count()));
  for (int64_t i = 0; i < x.stored_count(); ++i) {
    const int64_t row = i / columns % rows, column = i % columns;
    const bool kept = upper != 0 ? column - row >= k : column - row <= k;
    values[static_cast<size_t>(i)] = kept ? x.Get(i) : 0;
  }
  return Tensor::Make(x.kind(), x.dims(), x.dims(), values);
}

// One reduction, along one axis after the other.
absl::StatusOr<Tensor> FoldReduce(NodeContext& c, const Inputs& in, bool mean, const Function& f) {
  SNUG_ASSIGN_OR_RETURN(const auto axes_list, c.ListOf("axes", 1));
  SNUG_ASSIGN_OR_RETURN(const int64_t keep, c.Int("keepdims", 1));
  SNUG_ASSIGN_OR_RETURN(const int64_t noop, c.Int("noop_with_empty_axes", 0));
  SNUG_ASSIGN_OR_RETURN(Tensor t, in[0]->Spread());
  std::vector<bool> reduced(static_cast<size_t>(t.rank()), !axes_list.has_value() && noop == 0);
  for (const int64_t written : axes_list.value_or(std::vector<int64_t>())) {
    SNUG_ASSIGN_OR_RETURN(const int axis, c.Axis(written, t.rank()));
    reduced[static_cast<size_t>(axis)] = true;
  }
  Dims kept;
  for (int axis = 0; axis < t.rank(); ++axis) {
    const auto a = static_cast<size_t>(axis);
    if (!reduced[a] || keep != 0) kept.push_back(reduced[a] ? 1 : t.dims()[a]);
    if (!reduced[a]) continue;
    const int64_t n = t.dims()[a];
    if (n == 0) return absl::InvalidArgumentError("reduces nothing");
    SNUG_ASSIGN_OR_RETURN(Tensor sum, Take(t, axis, {0}, {1}));
    for (int64_t i = 1; i < n; ++i) {
      SNUG_ASSIGN_OR_RETURN(const Tensor next, Take(t, axis, {i}, {1}));
      SNUG_ASSIGN_OR_RETURN(sum, Elementwise({&sum, &next}, t.kind(), f));
    }
    if (mean) {
      SNUG_ASSIGN_OR_RETURN(
          sum, Elementwise({&sum}, t.kind(), [n](const double* x) { return x[0] / static_cast<double>(n); }));
    }
    t = std::move(sum);
  }
  return t.Reshaped(kept);
}

absl::StatusOr<Tensor> FoldCumSum(NodeContext& c, const Inputs& in) {
  SNUG_ASSIGN_OR_RETURN(const std::vector<int64_t> axis_list, c.ListInput(1, "axis"));
  SNUG_ASSIGN_OR_RETURN(const int64_t exclusive, c.Int("exclusive", 0));
  SNUG_ASSIGN_OR_RETURN(const int64_t reverse, c.Int("reverse", 0));
  if (axis_list.size() != 1 || exclusive != 0 || reverse != 0) {
    return absl::InvalidArgumentError("is computed along one axis, inclusive and forwards only");
  }
  SNUG_ASSIGN_OR_RETURN(const int axis, c.Axis(axis_list[0], in[0]->rank()));
  SNUG_ASSIGN_OR_RETURN(const Tensor x, in[0]->Spread());
  int64_t inner = 1;
  for (size_t i = static_cast<size_t>(axis) + 1; i < x.dims().size(); ++i) inner *= x.dims()[i];
  const int64_t n = x.dims()[static_cast<size_t>(axis)];
  std::vector<double> values(static_cast<size_t>(x.stored_count()));
  for (int64_t i = 0; i < x.stored_count(); ++i) {
    const double before = i / inner % n == 0 ? 0 : values[static_cast<size_t>(i - inner)];
    values[static_cast<size_t>(i)] = before + x.Get(i);
  }
  return Tensor::Make(x.kind(), x.dims(), x.dims(), values);
}

absl::StatusOr<Tensor> FoldSize(NodeContext&, const Inputs& in) {
  SNUG_ASSIGN_OR_RETURN(const int64_t count, CountElements(in[0]->dims()));
  return Tensor::Ints({}, {count});
}

absl::StatusOr<Tensor> FoldScatterNd(NodeContext& c, const Inputs& in) {
  SNUG_ASSIGN_OR_RETURN(const std::string reduction, c.String("reduction", "none"));
  if (in.size() != 3 || reduction != "none" || in[1]->rank() < 1 || in[1]->is_float()) {
    return absl::InvalidArgumentError("expected data, indices and updates, and no reduction");
  }
  SNUG_ASSIGN_OR_RETURN(const Tensor x, in[0]->Spread());
  SNUG_ASSIGN_OR_RETURN(const Tensor indices, in[1]->Spread());
  SNUG_ASSIGN_OR_RETURN(const Tensor updates, in[2]->Spread());
  const int64_t depth = indices.dims().back();
  if (depth < 1 || depth > x.rank())
    return absl::InvalidArgumentError("its indices have more numbers than the data axes");
  int64_t inner = 1;
  for (size_t i = static_cast<size_t>(depth); i < x.dims().size(); ++i) inner *= x.dims()[i];
  const int64_t rows = indices.stored_count() / depth;
  if (updates.stored_count() != rows * inner) return absl::InvalidArgumentError("its updates do not fit its indices");
  std::vector<double> values(static_cast<size_t>(x.stored_count()));
  for (size_t i = 0; i < values.size(); ++i) values[i] = x.Get(static_cast<int64_t>(i));
  for (int64_t row = 0; row < rows; ++row) {
    int64_t at = 0;
    for (int64_t k = 0; k < depth; ++k) {
      const int64_t size = x.dims()[static_cast<size_t>(k)];
      int64_t index = indices.ints()[static_cast<size_t>(row * depth + k)];
      if (index < -size || index >= size)
        return absl::InvalidArgumentError(absl::StrCat("index ", index, " of ", size));
      at = at * size + (index < 0 ? index + size : index);
    }
    for (int64_t i = 0; i < inner; ++i) values[static_cast<size_t>(at * inner + i)] = updates.Get(row * inner + i);
  }
  return Tensor::Make(x.kind(), x.dims(), x.dims(), values);
}

// Along `axis`, each element by an index of its own.
absl::StatusOr<Tensor> FoldGatherElements(NodeContext& c, const Inputs& in) {
  if (in.size() != 2 || in[0]->rank() != in[1]->rank() || in[1]->is_float()) {
    return absl::InvalidArgumentError("expected data and as many axes of indices");
  }
  SNUG_ASSIGN_OR_RETURN(const int axis, c.AxisAttribute(0, in[0]->rank()));
  const auto a = static_cast<size_t>(axis);
  const int64_t size = in[0]->dims()[a];
  const Dims& dims = in[1]->dims();
  for (size_t i = 0; i < dims.size(); ++i) {
    if (i != a && dims[i] > in[0]->dims()[i]) return absl::InvalidArgumentError("has more indices than data");
  }
  // Where both are the same for all samples, so is the result: only what is stored is looked at.
  Dims stored = in[1]->stored();
  for (size_t i = 0; i < stored.size(); ++i) {
    if (i != a && in[0]->stored()[i] != 1) stored[i] = dims[i];
  }
  SNUG_RETURN_IF_ERROR(CheckCount(stored));
  std::vector<double> values;
  std::vector<int64_t> at(stored.size(), 0);
  const auto offset_in = [](const Dims& own, const std::vector<int64_t>& place) {
    int64_t offset = 0;
    for (size_t i = 0; i < own.size(); ++i) offset = offset * own[i] + (own[i] == 1 ? 0 : place[i]);
    return offset;
  };
  SNUG_ASSIGN_OR_RETURN(const int64_t count, CountElements(stored));
  for (int64_t n = 0; n < count; ++n) {
    int64_t index = in[1]->ints()[static_cast<size_t>(offset_in(in[1]->stored(), at))];
    if (index < -size || index >= size) return absl::InvalidArgumentError(absl::StrCat("index ", index, " of ", size));
    std::vector<int64_t> from = at;
    from[a] = index < 0 ? index + size : index;
    values.push_back(in[0]->Get(offset_in(in[0]->stored(), from)));
    for (size_t i = stored.size(); i-- > 0;) {
      if (++at[i] < stored[i]) break;
      at[i] = 0;
    }
  }
  return Tensor::Make(in[0]->kind(), dims, stored, values);
}

absl::StatusOr<Tensor> FoldGatherNd(NodeContext& c, const Inputs& in) {
  SNUG_ASSIGN_OR_RETURN(const int64_t batch_dims, c.Int("batch_dims", 0));
  if (in.size() != 2 || batch_dims != 0 || in[1]->rank() < 1 || in[1]->is_float()) {
    return absl::InvalidArgumentError("expected data and indices, and no batch_dims");
  }
  SNUG_ASSIGN_OR_RETURN(const Tensor x, in[0]->Spread());
  const int64_t depth = in[1]->dims().back();
  if (depth < 1 || depth > x.rank() || in[1]->stored().back() != depth) {
    return absl::InvalidArgumentError("its indices have more numbers than the data axes");
  }
  int64_t inner = 1;
  for (size_t i = static_cast<size_t>(depth); i < x.dims().size(); ++i) inner *= x.dims()[i];
  Dims dims(in[1]->dims().begin(), in[1]->dims().end() - 1), stored(in[1]->stored().begin(), in[1]->stored().end() - 1);
  const int64_t rows = in[1]->stored_count() / depth;
  SNUG_RETURN_IF_ERROR(CheckCount({rows, inner}));
  std::vector<double> values;
  for (int64_t row = 0; row < rows; ++row) {
    int64_t at = 0;
    for (int64_t k = 0; k < depth; ++k) {
      const int64_t size = x.dims()[static_cast<size_t>(k)];
      const int64_t index = in[1]->ints()[static_cast<size_t>(row * depth + k)];
      if (index < -size || index >= size)
        return absl::InvalidArgumentError(absl::StrCat("index ", index, " of ", size));
      at = at * size + (index < 0 ? index + size : index);
    }
    for (int64_t i = 0; i < inner; ++i) values.push_back(x.Get(at * inner + i));
  }
  dims.insert(dims.end(), x.dims().begin() + depth, x.dims().end());
  stored.insert(stored.end(), x.dims().begin() + depth, x.dims().end());
  return Tensor::Make(x.kind(), dims, stored, values);
}

absl::StatusOr<std::vector<Tensor>> FoldSplit(NodeContext& c, const Inputs& in) {
  SNUG_ASSIGN_OR_RETURN(const SplitSizes split, SplitSizesOf(c, in[0]->dims()));
  std::vector<Tensor> parts;
  int64_t begin = 0;
  for (const int64_t size : split.sizes) {
    std::vector<int64_t> indices;
    for (int64_t i = 0; i < size; ++i) indices.push_back(begin + i);
    SNUG_ASSIGN_OR_RETURN(Tensor part, Take(*in[0], split.axis, indices, {size}));
    parts.push_back(std::move(part));
    begin += size;
  }
  return parts;
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

absl::StatusOr<std::optional<Tensor>> FoldReduction(NodeContext& c, const Inputs& in) {
  const std::string& op = c.op();
  const auto reduced = [&](bool mean, const Function& f) -> absl::StatusOr<std::optional<Tensor>> {
    SNUG_ASSIGN_OR_RETURN(Tensor t, FoldReduce(c, in, mean, f));
    return std::make_optional(std::move(t));
  };
  if (op == "ReduceSum" || op == "ReduceMean") {
    return reduced(op == "ReduceMean", [](const double* x) { return x[0] + x[1]; });
  }
  if (op == "ReduceProd") return reduced(false, [](const double* x) { return x[0] * x[1]; });
  if (op == "ReduceMax") return reduced(false, [](const double* x) { return std::max(x[0], x[1]); });
  if (op == "ReduceMin") return reduced(false, [](const double* x) { return std::min(x[0], x[1]); });
  return std::nullopt;
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
