// What is one layer here and several nodes in files: exporters write gelu, silu and, before version 17, layer_norm as
// their formulas. Each fusion looks forward from a node that such a formula has, and makes the value that it ends with;
// the layers of what lies between are read by nobody then, and go.
#include <absl/strings/str_cat.h>

#include <cmath>
#include <optional>
#include <utility>

#include "engine/base/status.h"
#include "interchange/import/node.h"
#include "interchange/onnx.pb.h"
#include "proto/network.pb.h"

namespace snug::core::onnx {
namespace {

using snug::proto::onnx::NodeProto;

bool Near(std::optional<double> number, double wanted) {
  return number.has_value() && std::fabs(*number - wanted) < 1e-4 * std::fabs(wanted);
}

bool Is(const NodeProto* node, absl::string_view op, int inputs = 2) {
  return node != nullptr && node->op_type() == op && node->input_size() == inputs && node->output_size() == 1 &&
         (node->domain().empty() || node->domain() == "ai.onnx");
}

// The input of a node of two that is not `one`.
const std::string& Other(const NodeProto& node, const std::string& one) {
  return node.input(node.input(0) == one ? 1 : 0);
}

// The only reader of `value`, if it is such an op with this number; null otherwise.
const NodeProto* Next(NodeContext& c, const std::string& value, absl::string_view op, double number) {
  const NodeProto* reader = c.OnlyReader(value);
  return Is(reader, op) && Near(c.NumberOf(Other(*reader, value)), number) ? reader : nullptr;
}

// Whether `value` is `x` times `number`.
bool IsTimes(NodeContext& c, const std::string& value, const std::string& x, double number) {
  const NodeProto* node = c.ProducerOf(value);
  if (Is(node, "Div")) return node->input(0) == x && Near(c.NumberOf(node->input(1)), 1 / number);
  return Is(node, "Mul") && (node->input(0) == x || node->input(1) == x) && Near(c.NumberOf(Other(*node, x)), number);
}

// From `1 + s(x)` to `x (1 + s(x)) / 2`, in whatever sequence; null if that is not what comes.
const NodeProto* TimesHalf(NodeContext& c, const std::string& sum, const std::string& x) {
  const NodeProto* first = c.OnlyReader(sum);
  if (!Is(first, "Mul")) return nullptr;
  const std::string& other = Other(*first, sum);
  if (IsTimes(c, other, x, 0.5)) return first;
  if (other == x) return Next(c, first->output(0), "Mul", 0.5);
  if (!Near(c.NumberOf(other), 0.5)) return nullptr;
  const NodeProto* second = c.OnlyReader(first->output(0));
  return Is(second, "Mul") && Other(*second, first->output(0)) == x ? second : nullptr;
}

absl::StatusOr<bool> Finish(NodeContext& c, const NodeProto* last, const std::string& x, proto::Layer layer) {
  const Value* value = last == nullptr ? nullptr : c.Lookup(x);
  if (value == nullptr || value->constant.has_value()) return false;
  Value y = *value;
  SNUG_ASSIGN_OR_RETURN(y.ref, c.Layer(std::move(layer), {y.ref}));
  c.SetOther(last->output(0), std::move(y));
  return true;
}

// x / 2 (1 + erf(x / sqrt(2)))
absl::StatusOr<bool> GeluByErf(NodeContext& c) {
  const NodeProto* scaled = c.ProducerOf(c.node().input(0));
  if (!Is(scaled, "Div") && !Is(scaled, "Mul")) return false;
  const bool second = c.NumberOf(scaled->input(0)).has_value();
  const std::string& x = scaled->input(second ? 1 : 0);
  if (!IsTimes(c, c.node().input(0), x, std::sqrt(0.5))) return false;
  const NodeProto* sum = Next(c, c.node().output(0), "Add", 1);
  if (sum == nullptr) return false;
  proto::Layer layer;
  layer.mutable_gelu();
  SNUG_ASSIGN_OR_RETURN(const bool done, Finish(c, TimesHalf(c, sum->output(0), x), x, std::move(layer)));
  if (done) c.Set(0, *c.Lookup(x));  // nobody reads it any more
  return done;
}

// x / 2 (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3)))
absl::StatusOr<bool> GeluByTanh(NodeContext& c) {
  if (c.num_inputs() != 2 || !Near(c.NumberOf(c.node().input(1)), 3)) return false;
  const std::string& x = c.node().input(0);
  const NodeProto* cube = Next(c, c.node().output(0), "Mul", 0.044715);
  const NodeProto* inner = cube == nullptr ? nullptr : c.OnlyReader(cube->output(0));
  if (!Is(inner, "Add") || Other(*inner, cube->output(0)) != x) return false;
  const NodeProto* scaled = Next(c, inner->output(0), "Mul", std::sqrt(2 / 3.14159265358979));
  const NodeProto* tanh = scaled == nullptr ? nullptr : c.OnlyReader(scaled->output(0));
  if (!Is(tanh, "Tanh", 1)) return false;
  const NodeProto* sum = Next(c, tanh->output(0), "Add", 1);
  if (sum == nullptr) return false;
  proto::Layer layer;
  layer.mutable_gelu()->set_tanh(true);
  const NodeProto* last = TimesHalf(c, sum->output(0), x);
  SNUG_ASSIGN_OR_RETURN(const bool done, Finish(c, last, x, std::move(layer)));
  if (!done) return false;
  for (const NodeProto* node : {&c.node(), cube, inner, scaled, tanh, sum}) c.SetOther(node->output(0), *c.Lookup(x));
  return true;
}

// x sigmoid(x), and x hard_sigmoid(x) with the slope of hard_swish
absl::StatusOr<bool> TimesOwnGate(NodeContext& c, bool hard) {
  const NodeProto* last = c.OnlyReader(c.node().output(0));
  const std::string& x = c.node().input(0);
  if (!Is(last, "Mul") || Other(*last, c.node().output(0)) != x) return false;
  if (hard) {
    SNUG_ASSIGN_OR_RETURN(const double alpha, c.Float("alpha", 0.2));
    SNUG_ASSIGN_OR_RETURN(const double beta, c.Float("beta", 0.5));
    if (!Near(alpha, 1. / 6) || beta != 0.5) return false;
  }
  proto::Layer layer;
  hard ? void(layer.mutable_hard_swish()) : void(layer.mutable_silu());
  SNUG_ASSIGN_OR_RETURN(const bool done, Finish(c, last, x, std::move(layer)));
  if (done) c.Set(0, *c.Lookup(x));
  return done;
}

// x, with another number where it is not a number: PyTorch's exporter writes this behind every softmax that has a mask,
// for rows of which all is masked. Here such rows stay NaN, which ends a training and says where.
absl::StatusOr<bool> NanGuard(NodeContext& c) {
  const NodeProto* where = c.OnlyReader(c.node().output(0));
  const std::string& x = c.node().input(0);
  if (!Is(where, "Where", 3) || where->input(0) != c.node().output(0) || where->input(2) != x ||
      !c.NumberOf(where->input(1)).has_value() || c.Lookup(x) == nullptr) {
    return false;
  }
  const Value value = *c.Lookup(x);
  c.Set(0, value);
  c.SetOther(where->output(0), value);
  return true;
}

// (x - mean) / sqrt(mean((x - mean)^2) + epsilon) weight + bias, over the last axis
absl::StatusOr<bool> LayerNormByMeans(NodeContext& c) {
  const Value& x = c.input(0);
  const std::string& name = c.node().input(0);
  if (x.constant.has_value()) return false;
  const auto is_mean_of_last = [&](NodeContext& mean) -> bool {
    const auto axes = mean.ListOf("axes", 1);
    const auto keep = mean.Int("keepdims", 1);
    return axes.ok() && keep.ok() && *keep == 1 && axes->has_value() && (*axes)->size() == 1 &&
           ((**axes)[0] == -1 || (**axes)[0] == x.rank() - 1);
  };
  if (!is_mean_of_last(c)) return false;
  const NodeProto* sub = c.OnlyReader(c.node().output(0));
  if (!Is(sub, "Sub") || sub->input(0) != name) return false;
  const std::string& centred = sub->output(0);
  const NodeProto* square = nullptr;
  const NodeProto* div = nullptr;
  for (const NodeProto* reader : c.ReadersOf(centred)) {
    if (Is(reader, "Div") && reader->input(0) == centred) div = reader;
    if (Is(reader, "Pow") && Near(c.NumberOf(reader->input(1)), 2)) square = reader;
    if (Is(reader, "Mul") && reader->input(0) == centred && reader->input(1) == centred) square = reader;
  }
  if (square == nullptr || div == nullptr || c.IsOutput(centred)) return false;
  for (const NodeProto* reader : c.ReadersOf(centred)) {
    if (reader != square && reader != div) return false;
  }
  const NodeProto* variance = c.OnlyReader(square->output(0));
  if (variance == nullptr || variance->op_type() != "ReduceMean") return false;
  NodeContext of_variance = c.At(*variance);
  if (!is_mean_of_last(of_variance)) return false;
  const NodeProto* sum = c.OnlyReader(variance->output(0));
  if (!Is(sum, "Add")) return false;
  const std::optional<double> epsilon = c.NumberOf(Other(*sum, variance->output(0)));
  const NodeProto* root = c.OnlyReader(sum->output(0));
  if (!epsilon.has_value() || !Is(root, "Sqrt", 1) || c.OnlyReader(root->output(0)) != div) return false;
  const NodeProto* mul = c.OnlyReader(div->output(0));
  const NodeProto* add = Is(mul, "Mul") ? c.OnlyReader(mul->output(0)) : nullptr;
  if (!Is(add, "Add")) return false;
  const Value* weight = c.Lookup(Other(*mul, div->output(0)));
  const Value* bias = c.Lookup(Other(*add, mul->output(0)));
  const Dims dims = {x.shape.back()};
  const auto fits = [&](const Value* v) { return v != nullptr && v->constant.has_value() && v->dims() == dims; };
  if (!fits(weight) || !fits(bias)) return false;
  SNUG_ASSIGN_OR_RETURN(const Tensor w, weight->constant->Spread());
  SNUG_ASSIGN_OR_RETURN(const Tensor b, bias->constant->Spread());
  SNUG_ASSIGN_OR_RETURN(Value y, WithLast(c.builder(), x, x.rank() - 1));
  proto::Layer layer;
  layer.mutable_layer_norm();
  if (AsWritten(*epsilon) != 1e-5) layer.mutable_layer_norm()->set_epsilon(AsWritten(*epsilon));
  SNUG_ASSIGN_OR_RETURN(y.ref, c.Layer(std::move(layer), {y.ref}, {{"weight", w}, {"bias", b}}, &w));
  for (const NodeProto* node : {&c.node(), sub, square, variance, sum, root, div, mul}) c.SetOther(node->output(0), y);
  c.SetOther(add->output(0), std::move(y));
  return true;
}

}  // namespace

absl::StatusOr<bool> Fuse(NodeContext& c) {
  if (c.num_inputs() == 0 || !c.has(0) || c.node().output_size() != 1) return false;
  if (c.op() == "Erf") return GeluByErf(c);
  if (c.op() == "Pow") return GeluByTanh(c);
  if (c.op() == "Sigmoid") return TimesOwnGate(c, false);
  if (c.op() == "HardSigmoid") return TimesOwnGate(c, true);
  if (c.op() == "ReduceMean") return LayerNormByMeans(c);
  if (c.op() == "IsNaN") return NanGuard(c);
  return false;
}

}  // namespace snug::core::onnx
