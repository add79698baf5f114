// Ops that work element by element. What lies how does not matter to them, so they keep the view of what they read.
#include <absl/strings/str_cat.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <limits>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include "engine/base/status.h"
#include "interchange/import/node.h"
#include "interchange/onnx.pb.h"
#include "proto/network.pb.h"

namespace snug::core::onnx {
namespace {

// ---- of one value ----

template <auto Mutable>
absl::Status Unary(NodeContext& c) {
  SNUG_ASSIGN_OR_RETURN(const Value x, c.Computed(0));
  proto::Layer layer;
  (layer.*Mutable)();
  return c.SetElementwise(x, std::move(layer));
}

absl::Status LeakyRelu(NodeContext& c) {
  SNUG_ASSIGN_OR_RETURN(const Value x, c.Computed(0));
  SNUG_ASSIGN_OR_RETURN(const double slope, c.Float("alpha", 0.01));
  proto::Layer layer;
  layer.mutable_leaky_relu();
  if (AsWritten(slope) != 0.01) layer.mutable_leaky_relu()->set_slope(AsWritten(slope));
  return c.SetElementwise(x, std::move(layer));
}

absl::Status Elu(NodeContext& c) {
  SNUG_ASSIGN_OR_RETURN(const Value x, c.Computed(0));
  SNUG_ASSIGN_OR_RETURN(const double alpha, c.Float("alpha", 1));
  proto::Layer layer;
  layer.mutable_elu();
  if (alpha != 1) layer.mutable_elu()->set_alpha(AsWritten(alpha));
  return c.SetElementwise(x, std::move(layer));
}

absl::Status Selu(NodeContext& c) {
  SNUG_ASSIGN_OR_RETURN(const Value x, c.Computed(0));
  SNUG_ASSIGN_OR_RETURN(const double alpha, c.Float("alpha", 1.67326319217681884765625));
  SNUG_ASSIGN_OR_RETURN(const double gamma, c.Float("gamma", 1.05070102214813232421875));
  if (std::fabs(alpha - 1.6732632) > 1e-5 || std::fabs(gamma - 1.0507010) > 1e-5) {
    return absl::InvalidArgumentError("alpha and gamma: only their usual values");
  }
  proto::Layer layer;
  layer.mutable_selu();
  return c.SetElementwise(x, std::move(layer));
}

absl::Status HardSigmoid(NodeContext& c) {
  SNUG_ASSIGN_OR_RETURN(const Value x, c.Computed(0));
  SNUG_ASSIGN_OR_RETURN(const double alpha, c.Float("alpha", 0.2));
  SNUG_ASSIGN_OR_RETURN(const double beta, c.Float("beta", 0.5));
  proto::Layer layer;
  if (std::fabs(alpha - 1. / 6) < 1e-6 && beta == 0.5) {
    layer.mutable_hard_sigmoid();
    return c.SetElementwise(x, std::move(layer));
  }
  layer.mutable_scale()->set_factor(AsWritten(alpha));
  layer.mutable_scale()->set_offset(AsWritten(beta));
  Value line = x;
  SNUG_ASSIGN_OR_RETURN(line.ref, c.builder().AddOne(c.LayerName() + ".line", std::move(layer), {x.ref}));
  proto::Layer clip;
  clip.mutable_clip()->set_min(0);
  clip.mutable_clip()->set_max(1);
  return c.SetElementwise(line, std::move(clip));
}

absl::Status Gelu(NodeContext& c) {
  SNUG_ASSIGN_OR_RETURN(const Value x, c.Computed(0));
  SNUG_ASSIGN_OR_RETURN(const std::string approximate, c.String("approximate", "none"));
  proto::Layer layer;
  layer.mutable_gelu();
  if (approximate == "tanh") layer.mutable_gelu()->set_tanh(true);
  if (approximate != "tanh" && approximate != "none") {
    return absl::InvalidArgumentError(absl::StrCat("approximate: expected none or tanh, found ", approximate));
  }
  return c.SetElementwise(x, std::move(layer));
}

absl::Status PRelu(NodeContext& c) {
  SNUG_ASSIGN_OR_RETURN(const Value x, c.Computed(0));
  SNUG_ASSIGN_OR_RETURN(const Tensor* slope, c.ConstantInput(1, "slope"));
  SNUG_ASSIGN_OR_RETURN(const Ref ref, InOrder(c.builder(), x));
  const int64_t count = slope->stored_count();
  // One for each channel has a number along axis 1 of x, and only there.
  const int axis = slope->rank() - static_cast<int>(ref.dims.size()) + 1;
  const bool of_channels = ref.dims.size() >= 2 && count == ref.dims[1] && (axis == 0 || axis == 1) &&
                           slope->dims()[static_cast<size_t>(axis)] == count &&
                           CountElements(slope->dims()).value_or(0) == count;
  if (count != 1 && !of_channels) {
    return absl::InvalidArgumentError(
        absl::StrCat("slope: expected one number, or one for each channel, found ", DimsText(slope->dims())));
  }
  SNUG_ASSIGN_OR_RETURN(const Tensor weight, slope->OnlyStored().Reshaped({count}));
  proto::Layer layer;
  layer.mutable_prelu();
  if (count != 1) layer.mutable_prelu()->set_num_parameters(count);
  SNUG_ASSIGN_OR_RETURN(Ref y, c.Layer(std::move(layer), {ref}, {{"weight", weight}}, &weight));
  c.SetRef(0, std::move(y));
  return absl::OkStatus();
}

absl::StatusOr<std::optional<double>> Limit(NodeContext& c, int input, absl::string_view name) {
  if (!c.has(input)) return std::nullopt;
  SNUG_ASSIGN_OR_RETURN(const Tensor* limit, c.ConstantInput(input, name));
  if (limit->stored_count() != 1) return absl::InvalidArgumentError(absl::StrCat(name, ": expected one number"));
  const double value = AsWritten(limit->scalar());
  if (std::fabs(value) >= std::numeric_limits<float>::max()) return std::nullopt;  // it clips nothing
  return value;
}

absl::Status Clip(NodeContext& c) {
  SNUG_ASSIGN_OR_RETURN(const Value x, c.Computed(0));
  SNUG_ASSIGN_OR_RETURN(const std::optional<double> min, Limit(c, 1, "min"));
  SNUG_ASSIGN_OR_RETURN(const std::optional<double> max, Limit(c, 2, "max"));
  proto::Layer layer;
  if (min == 0. && max == 6.) {
    layer.mutable_relu6();
  } else if (min == 0. && !max.has_value()) {
    layer.mutable_relu();
  } else if (!min.has_value() && !max.has_value()) {
    c.Set(0, x);
    return absl::OkStatus();
  } else {
    if (min.has_value()) layer.mutable_clip()->set_min(*min);
    if (max.has_value()) layer.mutable_clip()->set_max(*max);
  }
  return c.SetElementwise(x, std::move(layer));
}

absl::Status Scaled(NodeContext& c, const Value& x, double factor, double offset) {
  proto::Layer layer;
  proto::Scale* scale = layer.mutable_scale();
  if (factor != 1) scale->set_factor(factor);
  if (offset != 0) scale->set_offset(offset);
  return c.SetElementwise(x, std::move(layer));
}

absl::Status Reciprocal(NodeContext& c) {
  SNUG_ASSIGN_OR_RETURN(Value x, c.Computed(0));
  SNUG_ASSIGN_OR_RETURN(const Ref one, c.LayerOf(Tensor::Scalar(1)));
  proto::Layer layer;
  layer.mutable_div();
  SNUG_ASSIGN_OR_RETURN(x.ref, c.Layer(std::move(layer), {one, x.ref}));
  c.Set(0, std::move(x));
  return absl::OkStatus();
}

// Whether the result is the condition of nodes Where and nothing else: ours take a number, which holds if it is not 0.
bool OnlyConditions(NodeContext& c) {
  const std::string& name = c.node().output(0);
  for (const snug::proto::onnx::NodeProto* reader : c.ReadersOf(name)) {
    if (reader->op_type() != "Where" || reader->input_size() != 3 || reader->input(0) != name) return false;
    if (reader->input(1) == name || reader->input(2) == name) return false;
  }
  return c.node().output_size() == 1 && !c.IsOutput(name) && !c.ReadersOf(name).empty();
}

// 1 for every whole number but 0.
absl::Status Truths(NodeContext& c, Value x) {
  std::array<proto::Layer, 4> layers;
  layers[0].mutable_cast()->set_dtype(proto::FLOAT);
  layers[1].mutable_square();
  layers[2].mutable_clip()->set_max(1);
  layers[3].mutable_cast()->set_dtype(proto::INT32);
  for (proto::Layer& layer : layers) {
    SNUG_ASSIGN_OR_RETURN(x.ref, c.Layer(std::move(layer), {x.ref}));
  }
  c.Set(0, std::move(x));
  return absl::OkStatus();
}

absl::Status Cast(NodeContext& c) {
  using snug::proto::onnx::TensorProto;
  const Value& x = c.input(0);
  SNUG_ASSIGN_OR_RETURN(const int64_t to, c.Int("to", 0));
  c.Ignore("saturate");
  const bool to_float = to == TensorProto::FLOAT || to == TensorProto::DOUBLE || to == TensorProto::FLOAT16 ||
                        to == TensorProto::BFLOAT16;
  const bool to_int = to == TensorProto::INT32 || to == TensorProto::INT64;
  const bool same = (to_float && IsFloating(x.ref.dtype)) || (to_int && !IsFloating(x.ref.dtype));
  if (same) {
    c.Set(0, x);
    return absl::OkStatus();
  }
  if (to == TensorProto::BOOL && OnlyConditions(c)) {
    c.Set(0, x);
    return absl::OkStatus();
  }
  if (to == TensorProto::BOOL && !IsFloating(x.ref.dtype)) return Truths(c, x);
  if (!to_float && !to_int) return absl::InvalidArgumentError(absl::StrCat("casts to type number ", to));
  proto::Layer layer;
  layer.mutable_cast()->set_dtype(to_float ? proto::FLOAT : proto::INT32);
  return c.SetElementwise(x, std::move(layer));
}

absl::Status Dropout(NodeContext& c) {
  SNUG_ASSIGN_OR_RETURN(const Value x, c.Computed(0));
  SNUG_ASSIGN_OR_RETURN(double rate, c.Float("ratio", 0.5));
  c.Ignore("seed");
  if (c.has(1)) {
    SNUG_ASSIGN_OR_RETURN(const Tensor* ratio, c.ConstantInput(1, "ratio"));
    if (ratio->stored_count() != 1) return absl::InvalidArgumentError("ratio: expected one number");
    rate = ratio->scalar();
  }
  if (rate == 0) {
    c.Set(0, x);
    return absl::OkStatus();
  }
  proto::Layer layer;
  layer.mutable_dropout();
  if (rate != 0.5) layer.mutable_dropout()->set_rate(AsWritten(rate));
  return c.SetElementwise(x, std::move(layer));
}

absl::Status Identity(NodeContext& c) {
  c.Set(0, c.input(0));
  return absl::OkStatus();
}

// ---- of two ----

enum class BinaryOp { kAdd, kSub, kMul, kDiv, kPow, kMin, kMax };

void SetBinary(BinaryOp op, proto::Layer* layer) {
  switch (op) {
    case BinaryOp::kAdd:
      return void(layer->mutable_add());
    case BinaryOp::kSub:
      return void(layer->mutable_sub());
    case BinaryOp::kMul:
      return void(layer->mutable_mul());
    case BinaryOp::kDiv:
      return void(layer->mutable_div());
    case BinaryOp::kPow:
      return void(layer->mutable_pow());
    case BinaryOp::kMin:
      return void(layer->mutable_min());
    case BinaryOp::kMax:
      return void(layer->mutable_max());
  }
}

// With one number, what is shorter than a constant and an op that reads it. False: there is nothing shorter.
// Whether what is rounded next could fall on the other side of a whole number for the last bit.
bool IsRounded(NodeContext& c) {
  constexpr absl::string_view kRounding[] = {"Floor", "Ceil", "Round", "Cast", "Mod"};
  const std::vector<const snug::proto::onnx::NodeProto*>& readers = c.ReadersOf(c.node().output(0));
  return std::any_of(readers.begin(), readers.end(), [&](const snug::proto::onnx::NodeProto* reader) {
    return std::find(std::begin(kRounding), std::end(kRounding), reader->op_type()) != std::end(kRounding);
  });
}

absl::StatusOr<bool> WithNumber(NodeContext& c, BinaryOp op, const Value& x, double number, bool number_first) {
  if (!IsFloating(x.ref.dtype)) return false;
  number = AsWritten(number);
  if (!std::isfinite(number)) return false;
  absl::Status status;
  if (op == BinaryOp::kAdd || op == BinaryOp::kSub) {
    const double sign = op == BinaryOp::kSub && number_first ? -1 : 1;
    status = Scaled(c, x, sign, op == BinaryOp::kSub && !number_first ? -number : number);
  } else if (op == BinaryOp::kMul) {
    status = Scaled(c, x, number, 0);
  } else if (op == BinaryOp::kDiv && !number_first && number != 0 && !IsRounded(c)) {
    status = Scaled(c, x, 1 / number, 0);
  } else if (op == BinaryOp::kPow && !number_first && (number == 2 || number == 0.5)) {
    proto::Layer layer;
    number == 2 ? void(layer.mutable_square()) : void(layer.mutable_sqrt());
    status = c.SetElementwise(x, std::move(layer));
  } else if (op == BinaryOp::kMin || op == BinaryOp::kMax) {
    proto::Layer layer;
    op == BinaryOp::kMin ? layer.mutable_clip()->set_max(number) : layer.mutable_clip()->set_min(number);
    status = c.SetElementwise(x, std::move(layer));
  } else {
    return false;
  }
  SNUG_RETURN_IF_ERROR(status);
  return true;
}

// The result of an op whose inputs were made to fit: it has x's view, unless broadcasting has made it larger.
absl::StatusOr<Value> Fitted(Value x, Ref y, const Dims& shape) {
  if (y.dims.size() != x.ref.dims.size()) return absl::InternalError("an op gave another number of axes");
  x.ref = std::move(y);
  x.shape = shape;
  return x;
}

absl::StatusOr<Value> Combine(NodeContext& c, BinaryOp op, const Value& a, const Value& b) {
  SNUG_ASSIGN_OR_RETURN(const Dims shape, BroadcastDims(a.dims(), b.dims()));
  proto::Layer layer;
  SetBinary(op, &layer);
  if (!a.constant.has_value() && !b.constant.has_value()) {
    // The one that is repeated comes second, to `Together`.
    const bool swap = CountElements(a.shape).value() < CountElements(b.shape).value();
    SNUG_ASSIGN_OR_RETURN(const Pair pair, Together(c.builder(), swap ? b : a, swap ? a : b));
    SNUG_ASSIGN_OR_RETURN(
        Ref y, c.Layer(std::move(layer), swap ? std::vector<Ref>{pair.b, pair.a} : std::vector<Ref>{pair.a, pair.b}));
    return Fitted(pair.x, std::move(y), shape);
  }
  const bool first = a.constant.has_value();
  Value x = first ? b : a;
  SNUG_ASSIGN_OR_RETURN(const Tensor constant, ConstantBeside(c.builder(), &x, first ? *a.constant : *b.constant));
  SNUG_ASSIGN_OR_RETURN(const Ref other, c.LayerOf(constant));
  SNUG_ASSIGN_OR_RETURN(
      Ref y, c.Layer(std::move(layer), first ? std::vector<Ref>{other, x.ref} : std::vector<Ref>{x.ref, other}));
  return Fitted(std::move(x), std::move(y), shape);
}

// All inputs. Where they are more than two, their sequence does not matter: constants come last, beside what is
// computed.
absl::StatusOr<Value> CombineAll(NodeContext& c, BinaryOp op) {
  std::vector<int> sequence(static_cast<size_t>(c.num_inputs()));
  std::iota(sequence.begin(), sequence.end(), 0);
  if (sequence.size() > 2) {
    std::stable_partition(sequence.begin(), sequence.end(), [&](int i) { return !c.input(i).constant.has_value(); });
  }
  if (std::all_of(sequence.begin(), sequence.end(), [&](int i) { return c.input(i).constant.has_value(); })) {
    return absl::InvalidArgumentError("is of constants alone");
  }
  Value y = c.input(sequence[0]);
  for (size_t i = 1; i < sequence.size(); ++i) {
    SNUG_ASSIGN_OR_RETURN(y, Combine(c, op, y, c.input(sequence[i])));
  }
  return y;
}

template <BinaryOp op>
absl::Status Binary(NodeContext& c) {
  const bool any_number = op == BinaryOp::kMin || op == BinaryOp::kMax || c.op() == "Sum";
  if (any_number ? c.num_inputs() < 1 : c.num_inputs() != 2) {
    return absl::InvalidArgumentError(absl::StrCat("expected 2 inputs, found ", c.num_inputs()));
  }
  for (int i = 0; i < c.num_inputs(); ++i) {
    if (!c.has(i)) return absl::InvalidArgumentError(absl::StrCat("input ", i, " is absent"));
  }
  if (c.num_inputs() == 2) {
    for (int i = 0; i < 2; ++i) {
      const Value& number = c.input(i);
      const Value& x = c.input(1 - i);
      if (!number.constant.has_value() || number.constant->stored_count() != 1 || x.constant.has_value()) continue;
      SNUG_ASSIGN_OR_RETURN(const Dims shape, BroadcastDims(x.dims(), number.dims()));
      if (shape != x.dims() || number.constant->is_weight) continue;
      SNUG_ASSIGN_OR_RETURN(const bool done, WithNumber(c, op, x, number.constant->scalar(), i == 0));
      if (done) return absl::OkStatus();
    }
  }
  SNUG_ASSIGN_OR_RETURN(Value y, CombineAll(c, op));
  c.Set(0, std::move(y));
  return absl::OkStatus();
}

absl::Status Mean(NodeContext& c) {
  for (int i = 0; i < c.num_inputs(); ++i) {
    if (!c.has(i)) return absl::InvalidArgumentError(absl::StrCat("input ", i, " is absent"));
  }
  SNUG_ASSIGN_OR_RETURN(const Value y, CombineAll(c, BinaryOp::kAdd));
  return Scaled(c, y, 1. / c.num_inputs(), 0);
}

// y = a where the condition is not 0, else b. All three are brought to the view of the largest that is computed.
absl::Status Where(NodeContext& c) {
  if (c.num_inputs() != 3) return absl::InvalidArgumentError("expected 3 inputs");
  Dims shape;
  int largest = -1;
  int64_t most = 0;
  for (int i = 0; i < 3; ++i) {
    if (!c.has(i)) return absl::InvalidArgumentError(absl::StrCat("input ", i, " is absent"));
    SNUG_ASSIGN_OR_RETURN(shape, BroadcastDims(shape, c.input(i).dims()));
    if (c.input(i).constant.has_value()) continue;
    SNUG_ASSIGN_OR_RETURN(const int64_t count, CountElements(c.input(i).shape));
    if (count <= most) continue;
    largest = i;
    most = count;
  }
  if (largest < 0) return absl::InvalidArgumentError("is of constants alone");
  Value x = c.input(largest);
  // Constants may ask for another view of x, so they come first.
  std::vector<Tensor> constants(3);
  for (int round = 0; round < 2; ++round) {
    for (int i = 0; i < 3; ++i) {
      if (!c.input(i).constant.has_value()) continue;
      SNUG_ASSIGN_OR_RETURN(constants[static_cast<size_t>(i)], ConstantBeside(c.builder(), &x, *c.input(i).constant));
    }
  }
  std::vector<Ref> refs(3);
  for (int i = 0; i < 3; ++i) {
    const auto k = static_cast<size_t>(i);
    if (c.input(i).constant.has_value()) {
      SNUG_ASSIGN_OR_RETURN(refs[k], c.LayerOf(i == 0 ? constants[k] : constants[k].As(Kind::kFloat)));
    } else if (i == largest) {
      refs[k] = x.ref;
    } else {
      SNUG_ASSIGN_OR_RETURN(const Pair pair, Together(c.builder(), x, c.input(i)));
      if (pair.a.name != x.ref.name) return absl::InvalidArgumentError("chooses between values that lie in other ways");
      refs[k] = pair.b;
    }
  }
  proto::Layer layer;
  layer.mutable_where();
  SNUG_ASSIGN_OR_RETURN(Ref y, c.Layer(std::move(layer), refs));
  SNUG_ASSIGN_OR_RETURN(Value result, Fitted(std::move(x), std::move(y), shape));
  c.Set(0, std::move(result));
  return absl::OkStatus();
}

}  // namespace

std::vector<NamedMapping> ElementwiseMappings() {
  using L = proto::Layer;
  return {{"Abs", Unary<&L::mutable_abs>},
          {"Add", Binary<BinaryOp::kAdd>},
          {"Cast", Cast},
          {"Clip", Clip},
          {"Cos", Unary<&L::mutable_cos>},
          {"Div", Binary<BinaryOp::kDiv>},
          {"Dropout", Dropout},
          {"Elu", Elu},
          {"Exp", Unary<&L::mutable_exp>},
          {"Floor", Unary<&L::mutable_floor>},
          {"Gelu", Gelu},
          {"HardSigmoid", HardSigmoid},
          {"HardSwish", Unary<&L::mutable_hard_swish>},
          {"Identity", Identity},
          {"LeakyRelu", LeakyRelu},
          {"Log", Unary<&L::mutable_log>},
          {"Max", Binary<BinaryOp::kMax>},
          {"Mean", Mean},
          {"Min", Binary<BinaryOp::kMin>},
          {"Mish", Unary<&L::mutable_mish>},
          {"Mul", Binary<BinaryOp::kMul>},
          {"Neg", Unary<&L::mutable_neg>},
          {"PRelu", PRelu},
          {"Pow", Binary<BinaryOp::kPow>},
          {"Reciprocal", Reciprocal},
          {"Relu", Unary<&L::mutable_relu>},
          {"Selu", Selu},
          {"Sigmoid", Unary<&L::mutable_sigmoid>},
          {"Sign", Unary<&L::mutable_sign>},
          {"Sin", Unary<&L::mutable_sin>},
          {"Softplus", Unary<&L::mutable_softplus>},
          {"Sqrt", Unary<&L::mutable_sqrt>},
          {"Sub", Binary<BinaryOp::kSub>},
          {"Sum", Binary<BinaryOp::kAdd>},
          {"Tanh", Unary<&L::mutable_tanh>},
          {"Where", Where}};
}

}  // namespace snug::core::onnx
