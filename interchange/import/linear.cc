// Gemm and MatMul: a dense layer, where one of the two is a weight.
#include <absl/strings/str_cat.h>

#include <algorithm>
#include <utility>

#include "engine/base/status.h"
#include "interchange/import/node.h"
#include "interchange/onnx.pb.h"
#include "proto/network.pb.h"

namespace snug::core::onnx {
namespace {

absl::StatusOr<Tensor> Times(const Tensor& t, double factor) {
  if (factor == 1) return t;
  SNUG_ASSIGN_OR_RETURN(const Tensor whole, t.Spread());
  std::vector<float> values = whole.floats();
  for (float& value : values) value = static_cast<float>(value * factor);
  Tensor scaled = Tensor::Floats(whole.dims(), std::move(values));
  scaled.name = t.name;
  scaled.is_weight = t.is_weight;
  return scaled;
}

// A constant that is added to [..., units] as a bias; nullopt if it is something else.
std::optional<Tensor> AsBias(const Tensor& t, int64_t units) {
  if (!t.is_float() || (t.rank() > 0 && t.stored_count() != t.stored().back())) return std::nullopt;
  if (t.stored_count() != 1 && t.stored_count() != units) return std::nullopt;
  absl::StatusOr<Tensor> bias = t.OnlyStored().Reshaped({t.stored_count()});
  if (bias.ok()) bias = bias->BroadcastTo({units});
  if (bias.ok()) bias = bias->Spread();
  return bias.ok() ? std::optional<Tensor>(*std::move(bias)) : std::nullopt;
}

// y = x w^T + bias over an axis of x.
absl::StatusOr<Value> Dense(NodeContext& c, const Value& x, int axis, const Tensor& weight,
                            const std::optional<Tensor>& bias) {
  SNUG_ASSIGN_OR_RETURN(Value y, WithLast(c.builder(), x, axis));
  proto::Layer layer;
  layer.mutable_dense()->set_units(weight.dims()[0]);
  Weights weights = {{"weight", weight}};
  if (bias.has_value()) {
    weights.emplace_back("bias", *bias);
  } else {
    layer.mutable_dense()->set_bias(false);
  }
  const bool by_bias = bias.has_value() && c.LayerName(&weight) == c.LayerName();
  SNUG_ASSIGN_OR_RETURN(y.ref, c.Layer(std::move(layer), {y.ref}, weights, by_bias ? &*bias : &weight));
  y.shape[static_cast<size_t>(axis)] = weight.dims()[0];
  return y;
}

absl::StatusOr<Value> Matrices(NodeContext& c, const Value& x, const Value& y);

absl::Status Gemm(NodeContext& c) {
  if (!c.has(1)) return absl::InvalidArgumentError("expected two matrices");
  SNUG_ASSIGN_OR_RETURN(const double alpha, c.Float("alpha", 1));
  SNUG_ASSIGN_OR_RETURN(const double beta, c.Float("beta", 1));
  SNUG_ASSIGN_OR_RETURN(const int64_t transpose_a, c.Int("transA", 0));
  SNUG_ASSIGN_OR_RETURN(const int64_t transpose_b, c.Int("transB", 0));
  SNUG_ASSIGN_OR_RETURN(Value a, c.Computed(0));
  if (a.rank() != 2 || c.input(1).rank() != 2) return absl::InvalidArgumentError("expected two matrices");
  if (transpose_a != 0) a = Transposed(a, {1, 0});
  if (!c.input(1).constant.has_value()) {
    Value b = c.input(1);
    if (transpose_b != 0) b = Transposed(b, {1, 0});
    if (alpha != 1 || c.has(2))
      return absl::InvalidArgumentError("of two computed matrices: only their product is imported");
    SNUG_ASSIGN_OR_RETURN(Value y, Matrices(c, a, b));
    c.Set(0, std::move(y));
    return absl::OkStatus();
  }
  Tensor weight = *c.input(1).constant;
  if (transpose_b == 0) {
    SNUG_ASSIGN_OR_RETURN(weight, weight.Transposed({1, 0}));
  }
  if (!weight.is_float() || weight.dims()[1] != a.shape[1]) {
    return absl::InvalidArgumentError(
        absl::StrCat("cannot multiply ", DimsText(a.shape), " with ", DimsText(c.input(1).dims())));
  }
  SNUG_ASSIGN_OR_RETURN(weight, Times(weight, alpha));
  std::optional<Tensor> bias;
  if (c.has(2)) {
    SNUG_ASSIGN_OR_RETURN(const Tensor* added, c.ConstantInput(2, "C"));
    bias = AsBias(*added, weight.dims()[0]);
    if (!bias.has_value()) {
      return absl::InvalidArgumentError(
          absl::StrCat("input 2 (C): expected ", weight.dims()[0], " numbers, found ", DimsText(added->dims())));
    }
    SNUG_ASSIGN_OR_RETURN(bias, Times(*bias, beta));
  }
  SNUG_ASSIGN_OR_RETURN(Value y, Dense(c, a, 1, weight, bias));
  c.Set(0, std::move(y));
  return absl::OkStatus();
}

// How the axes of a value's layer lie for a product of matrices: those of the leading axes, then rows, then columns.
struct Lying {
  Ref ref;
  std::vector<std::vector<int>> leading;  // the axes of ref of each leading axis
  bool transposed = false;                // rows and columns have changed places
};

// `pattern` says in which sequence the leading axes' parts come, as (axis, part); empty: as they lie.
using Parts = std::vector<std::pair<int, int>>;
absl::StatusOr<Lying> Lie(NodeContext& c, const Value& x, Parts* pattern) {
  const int leading = x.rank() - 2;
  if (pattern->empty()) {
    for (int i = 0; i < leading; ++i) {
      const std::vector<int>& axes = x.axes[static_cast<size_t>(i)];
      for (size_t k = 0; k < axes.size(); ++k) pattern->emplace_back(i, static_cast<int>(k));
    }
    std::sort(pattern->begin(), pattern->end(), [&](const auto& p, const auto& q) {
      return x.axes[static_cast<size_t>(p.first)][static_cast<size_t>(p.second)] <
             x.axes[static_cast<size_t>(q.first)][static_cast<size_t>(q.second)];
    });
  }
  std::vector<int> front;
  Dims dims;
  Lying lying;
  lying.leading.resize(static_cast<size_t>(leading));
  for (const auto& [axis, part] : *pattern) {
    const std::vector<int>& axes = x.axes[static_cast<size_t>(axis)];
    lying.leading[static_cast<size_t>(axis)].push_back(static_cast<int>(dims.size()));
    if (axes.empty()) {  // it has size 1, and is repeated
      dims.push_back(1);
      continue;
    }
    front.push_back(axes[static_cast<size_t>(part)]);
    dims.push_back(x.ref.dims[static_cast<size_t>(front.back())]);
  }
  if (front.empty() || front[0] != 0) {
    return absl::InvalidArgumentError("multiplies over the batch: Snug keeps samples apart");
  }
  const std::vector<int>& rows = x.axes[static_cast<size_t>(leading)];
  const std::vector<int>& columns = x.axes[static_cast<size_t>(leading) + 1];
  const auto sequence_of = [&](const std::vector<int>& first, const std::vector<int>& second) {
    std::vector<int> sequence = front;
    sequence.insert(sequence.end(), first.begin(), first.end());
    sequence.insert(sequence.end(), second.begin(), second.end());
    for (int a = 0; a < static_cast<int>(x.ref.dims.size()); ++a) {
      if (std::find(sequence.begin(), sequence.end(), a) == sequence.end()) sequence.push_back(a);
    }
    return sequence;
  };
  const int64_t m = x.shape[static_cast<size_t>(leading)], n = x.shape[static_cast<size_t>(leading) + 1];
  std::vector<int> sequence = sequence_of(columns, rows);
  lying.transposed = std::is_sorted(sequence.begin(), sequence.end()) && m > 1 && n > 1;
  if (!lying.transposed) sequence = sequence_of(rows, columns);
  dims.push_back(lying.transposed ? n : m);
  dims.push_back(lying.transposed ? m : n);
  SNUG_ASSIGN_OR_RETURN(lying.ref, c.builder().Transpose(x.ref, sequence));
  SNUG_ASSIGN_OR_RETURN(lying.ref, c.builder().Reshape(lying.ref, dims));
  return lying;
}

// The product of two computed values, whose leading axes are those of each other or have size 1 in y.
absl::StatusOr<Value> Matrices(NodeContext& c, const Value& given_x, const Value& given_y) {
  Value x = given_x, y = given_y;
  if (x.rank() < 2 || x.rank() != y.rank()) {
    return absl::InvalidArgumentError(absl::StrCat("of two computed values: expected the same number of axes, found ",
                                                   DimsText(x.shape), " and ", DimsText(y.shape)));
  }
  const auto leading = static_cast<size_t>(x.rank() - 2);
  const auto alike = [&] {
    for (size_t i = 0; i < leading; ++i) {
      if (y.shape[i] == 1 && BatchAxis(y) != static_cast<int>(i)) continue;
      if (x.axes[i].size() != y.axes[i].size()) return false;
      for (size_t k = 0; k < x.axes[i].size(); ++k) {
        if (x.ref.dims[static_cast<size_t>(x.axes[i][k])] != y.ref.dims[static_cast<size_t>(y.axes[i][k])])
          return false;
        if ((x.axes[i][k] == 0) != (y.axes[i][k] == 0)) return false;
      }
    }
    return true;
  };
  if (!alike()) {
    SNUG_ASSIGN_OR_RETURN(x, OneForOne(c.builder(), x));
    SNUG_ASSIGN_OR_RETURN(y, OneForOne(c.builder(), y));
  }
  for (size_t i = 0; i < leading; ++i) {
    if (x.shape[i] != y.shape[i] && y.shape[i] != 1) {
      return absl::InvalidArgumentError(
          absl::StrCat("repeats the first matrix: ", DimsText(x.shape), " and ", DimsText(y.shape)));
    }
  }
  Parts pattern;
  SNUG_ASSIGN_OR_RETURN(const Lying a, Lie(c, x, &pattern));
  SNUG_ASSIGN_OR_RETURN(const Lying b, Lie(c, y, &pattern));
  proto::Layer layer;
  proto::MatMul* matmul = layer.mutable_matmul();
  if (a.transposed) matmul->set_transpose_a(true);
  if (b.transposed) matmul->set_transpose_b(true);
  Value z;
  SNUG_ASSIGN_OR_RETURN(z.ref, c.Layer(std::move(layer), {a.ref, b.ref}));
  z.shape = x.shape;
  z.shape.back() = y.shape.back();
  z.axes = a.leading;
  const int last = static_cast<int>(z.ref.dims.size()) - 1;
  z.axes.push_back({last - 1});
  z.axes.push_back({last});
  return z;
}

// A bias that is added to the product right away belongs to it. Returns the node that adds it.
const proto::onnx::NodeProto* AddedBias(NodeContext& c, int64_t units, std::optional<Tensor>* bias) {
  const proto::onnx::NodeProto* reader = c.OnlyReader(c.node().output(0));
  if (reader == nullptr || reader->op_type() != "Add" || reader->input_size() != 2 || !reader->domain().empty() ||
      reader->output_size() != 1) {
    return nullptr;
  }
  const std::string& other = reader->input(reader->input(0) == c.node().output(0) ? 1 : 0);
  const Value* value = c.Lookup(other);
  if (value == nullptr || !value->constant.has_value() || value->rank() != 1 || value->dims()[0] != units)
    return nullptr;
  *bias = AsBias(*value->constant, units);
  return bias->has_value() ? reader : nullptr;
}

absl::Status MatMul(NodeContext& c) {
  if (!c.has(1)) return absl::InvalidArgumentError("expected two matrices");
  const Value& second = c.input(1);
  for (int i = 0; i < 2; ++i) {
    if (!c.input(i).constant.has_value() || c.input(i).rank() <= std::max(2, c.input(1 - i).rank())) continue;
    return absl::InvalidArgumentError(absl::StrCat("input ", i, ": its axes would stand before the batch"));
  }
  if (c.input(0).constant.has_value()) {
    SNUG_ASSIGN_OR_RETURN(const Value x, c.Computed(0));
    SNUG_ASSIGN_OR_RETURN(const Ref y, InOrder(c.builder(), second));
    proto::Layer layer;
    layer.mutable_matmul();
    SNUG_ASSIGN_OR_RETURN(Ref z, c.Layer(std::move(layer), {x.ref, y}));
    c.SetRef(0, std::move(z));
    return absl::OkStatus();
  }
  const Value& x = c.input(0);
  if (!second.constant.has_value()) {
    SNUG_ASSIGN_OR_RETURN(Value z, Matrices(c, x, second));
    c.Set(0, std::move(z));
    return absl::OkStatus();
  }
  Tensor weight = *second.constant;
  const Dims& dims = weight.dims();
  if (dims.size() > 2 && std::all_of(dims.begin(), dims.end() - 2, [](int64_t d) { return d == 1; }) &&
      weight.rank() <= x.rank()) {
    SNUG_ASSIGN_OR_RETURN(weight, weight.Reshaped(Dims(dims.end() - 2, dims.end())));
  }
  if (weight.rank() != 2) {
    SNUG_ASSIGN_OR_RETURN(const Ref a, InOrder(c.builder(), x));
    SNUG_ASSIGN_OR_RETURN(const Ref b, c.LayerOf(weight));
    proto::Layer layer;
    layer.mutable_matmul();
    SNUG_ASSIGN_OR_RETURN(Ref z, c.Layer(std::move(layer), {a, b}));
    c.SetRef(0, std::move(z));
    return absl::OkStatus();
  }
  if (x.rank() < 1 || !weight.is_float() || weight.dims()[0] != x.shape.back()) {
    return absl::InvalidArgumentError(
        absl::StrCat("cannot multiply ", DimsText(x.shape), " with ", DimsText(weight.dims())));
  }
  SNUG_ASSIGN_OR_RETURN(weight, weight.Transposed({1, 0}));
  std::optional<Tensor> bias;
  const proto::onnx::NodeProto* adder = AddedBias(c, weight.dims()[0], &bias);
  SNUG_ASSIGN_OR_RETURN(Value y, Dense(c, x, x.rank() - 1, weight, bias));
  if (adder != nullptr) c.SetOther(adder->output(0), y);
  c.Set(0, std::move(y));
  return absl::OkStatus();
}

}  // namespace

std::vector<NamedMapping> LinearMappings() { return {{"Gemm", Gemm}, {"MatMul", MatMul}}; }

}  // namespace snug::core::onnx
