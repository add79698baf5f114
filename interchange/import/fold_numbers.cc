// What is computed of numbers while a model is imported: element by element, and along axes.
#include <absl/strings/str_cat.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "engine/base/status.h"
#include "interchange/import/arrangements.h"
#include "interchange/import/fold.h"

namespace snug::core::onnx {

absl::Status CheckCount(const Dims& dims) {
  SNUG_ASSIGN_OR_RETURN(const int64_t count, CountElements(dims));
  if (count > kMaxFoldedElements) {
    return absl::InvalidArgumentError(absl::StrCat("a constant of shape ", DimsText(dims), " is too large"));
  }
  return absl::OkStatus();
}

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

namespace {

// f of two numbers, of which whole ones have no result where the second is 0.
template <class F>
absl::StatusOr<Tensor> Quotients(const Inputs& in, const F& f) {
  if (in.size() != 2) return absl::InvalidArgumentError("expected 2 inputs");
  const bool whole = !in[0]->is_float();
  bool by_zero = false;
  absl::StatusOr<Tensor> quotients = Elementwise(in, in[0]->kind(), [&](const double* x) {
    if (whole && x[1] == 0) by_zero = true;
    return by_zero ? 0 : f(whole, x[0], x[1]);
  });
  if (by_zero) return absl::InvalidArgumentError("divides whole numbers by 0");
  return quotients;
}

}  // namespace

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

absl::StatusOr<Tensor> FoldDivide(NodeContext&, const Inputs& in) {
  return Quotients(in, [](bool whole, double a, double b) { return whole ? std::trunc(a / b) : a / b; });
}

absl::StatusOr<Tensor> FoldMod(NodeContext& c, const Inputs& in) {
  SNUG_ASSIGN_OR_RETURN(const int64_t as_c, c.Int("fmod", 0));
  return Quotients(
      in, [as_c](bool, double a, double b) { return as_c != 0 ? std::fmod(a, b) : a - b * std::floor(a / b); });
}

absl::StatusOr<Tensor> FoldWhere(NodeContext&, const Inputs& in) {
  if (in.size() != 3) return absl::InvalidArgumentError("expected 3 inputs");
  return Elementwise(in, in[1]->kind(), [](const double* x) { return x[0] != 0 ? x[1] : x[2]; });
}

namespace {

// One reduction, along one axis after the other.
absl::StatusOr<Tensor> FoldReduce(NodeContext& c, const Inputs& in, bool mean, const Function& f) {
  SNUG_ASSIGN_OR_RETURN(const auto axes_list, c.ListOf("axes", 1));
  SNUG_ASSIGN_OR_RETURN(const int64_t keep, c.Int("keepdims", 1));
  SNUG_ASSIGN_OR_RETURN(const int64_t noop, c.Int("noop_with_empty_axes", 0));
  SNUG_ASSIGN_OR_RETURN(Tensor t, in[0]->Spread());
  std::vector<bool> reduced(static_cast<size_t>(t.rank()),
                            axes_list.value_or(std::vector<int64_t>()).empty() && noop == 0);
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

}  // namespace

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

}  // namespace snug::core::onnx
