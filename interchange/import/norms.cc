// Normalisation, and softmax.
#include <absl/strings/str_cat.h>

#include <utility>

#include "engine/base/status.h"
#include "interchange/import/node.h"
#include "proto/network.pb.h"

namespace snug::core::onnx {
namespace {

absl::StatusOr<Tensor> WeightInput(NodeContext& c, int i, absl::string_view what, const Dims& dims) {
  SNUG_ASSIGN_OR_RETURN(const Tensor* tensor, c.ConstantInput(i, what));
  absl::StatusOr<Tensor> spread = tensor->BroadcastTo(dims);
  if (spread.ok()) spread = spread->Spread();
  if (!spread.ok() || !spread->is_float()) {
    return absl::InvalidArgumentError(
        absl::StrCat("input ", i, " (", what, "): expected ", DimsText(dims), ", found ", DimsText(tensor->dims())));
  }
  return *spread;
}

Tensor Zeros(const Dims& dims) {
  int64_t count = 1;
  for (const int64_t dim : dims) count *= dim;
  return Tensor::Floats(dims, std::vector<float>(static_cast<size_t>(count), 0));
}

absl::StatusOr<Ref> ChannelInput(NodeContext& c) {
  SNUG_ASSIGN_OR_RETURN(const Value x, c.Computed(0));
  if (x.rank() < 2) return absl::InvalidArgumentError(absl::StrCat("expected channels, found ", DimsText(x.shape)));
  return InOrder(c.builder(), x);
}

absl::Status BatchNormalization(NodeContext& c) {
  SNUG_ASSIGN_OR_RETURN(const Ref x, ChannelInput(c));
  SNUG_ASSIGN_OR_RETURN(const double epsilon, c.Float("epsilon", 1e-5));
  SNUG_ASSIGN_OR_RETURN(const double momentum, c.Float("momentum", 0.9));
  c.Ignore("training_mode");
  c.Ignore("spatial");
  const Dims channels = {x.dims[1]};
  Weights weights;
  const char* names[] = {"", "weight", "bias", "running_mean", "running_var"};
  for (int i = 1; i <= 4; ++i) {
    SNUG_ASSIGN_OR_RETURN(Tensor weight, WeightInput(c, i, names[i], channels));
    weights.emplace_back(names[i], std::move(weight));
  }
  proto::Layer layer;
  proto::BatchNorm* norm = layer.mutable_batch_norm();
  if (AsWritten(epsilon) != 1e-5) norm->set_epsilon(AsWritten(epsilon));
  if (AsWritten(1 - momentum) != 0.1) norm->set_momentum(AsWritten(1 - momentum));
  SNUG_ASSIGN_OR_RETURN(Ref y, c.Layer(std::move(layer), {x}, weights, &weights[0].second));
  c.SetRef(0, std::move(y));
  return absl::OkStatus();
}

absl::Status InstanceNormalization(NodeContext& c) {
  SNUG_ASSIGN_OR_RETURN(const Ref x, ChannelInput(c));
  SNUG_ASSIGN_OR_RETURN(const double epsilon, c.Float("epsilon", 1e-5));
  SNUG_ASSIGN_OR_RETURN(Tensor weight, WeightInput(c, 1, "scale", {x.dims[1]}));
  SNUG_ASSIGN_OR_RETURN(Tensor bias, WeightInput(c, 2, "B", {x.dims[1]}));
  proto::Layer layer;
  proto::InstanceNorm* norm = layer.mutable_instance_norm();
  norm->set_affine(true);
  if (AsWritten(epsilon) != 1e-5) norm->set_epsilon(AsWritten(epsilon));
  const Tensor name = weight;
  SNUG_ASSIGN_OR_RETURN(
      Ref y, c.Layer(std::move(layer), {x}, {{"weight", std::move(weight)}, {"bias", std::move(bias)}}, &name));
  c.SetRef(0, std::move(y));
  return absl::OkStatus();
}

// A number for each group, as in versions before 21, or for each channel.
absl::StatusOr<Tensor> OfChannels(NodeContext& c, int i, absl::string_view what, int64_t channels, int64_t groups) {
  SNUG_ASSIGN_OR_RETURN(const Tensor* tensor, c.ConstantInput(i, what));
  if (c.opset() >= 21) return WeightInput(c, i, what, {channels});
  SNUG_ASSIGN_OR_RETURN(Tensor of_group, WeightInput(c, i, what, {groups}));
  SNUG_ASSIGN_OR_RETURN(Tensor spread, of_group.Reshaped({groups, 1}));
  SNUG_ASSIGN_OR_RETURN(spread, spread.BroadcastTo({groups, channels / groups}));
  SNUG_ASSIGN_OR_RETURN(spread, spread.Reshaped({channels}));
  spread.name = tensor->name;
  return spread;
}

absl::Status GroupNormalization(NodeContext& c) {
  SNUG_ASSIGN_OR_RETURN(const Ref x, ChannelInput(c));
  SNUG_ASSIGN_OR_RETURN(const double epsilon, c.Float("epsilon", 1e-5));
  SNUG_ASSIGN_OR_RETURN(const int64_t groups, c.Int("num_groups", 0));
  c.Ignore("stash_type");
  if (groups < 1 || x.dims[1] % groups != 0) {
    return absl::InvalidArgumentError(absl::StrCat(groups, " groups of ", x.dims[1], " channels"));
  }
  SNUG_ASSIGN_OR_RETURN(Tensor weight, OfChannels(c, 1, "scale", x.dims[1], groups));
  SNUG_ASSIGN_OR_RETURN(Tensor bias, OfChannels(c, 2, "bias", x.dims[1], groups));
  proto::Layer layer;
  proto::GroupNorm* norm = layer.mutable_group_norm();
  norm->set_groups(groups);
  if (AsWritten(epsilon) != 1e-5) norm->set_epsilon(AsWritten(epsilon));
  const Tensor name = weight;
  SNUG_ASSIGN_OR_RETURN(
      Ref y, c.Layer(std::move(layer), {x}, {{"weight", std::move(weight)}, {"bias", std::move(bias)}}, &name));
  c.SetRef(0, std::move(y));
  return absl::OkStatus();
}

absl::Status LayerNormalization(NodeContext& c) {
  SNUG_ASSIGN_OR_RETURN(const Value x, c.Computed(0));
  SNUG_ASSIGN_OR_RETURN(const int axis, c.AxisAttribute(-1, x.rank()));
  SNUG_ASSIGN_OR_RETURN(const double epsilon, c.Float("epsilon", 1e-5));
  c.Ignore("stash_type");
  if (c.num_outputs() > 1) return absl::InvalidArgumentError("its outputs Mean and InvStdDev are not imported");
  const int axes = x.rank() - axis;
  Value y;
  if (axes == 1) {
    SNUG_ASSIGN_OR_RETURN(y, WithLast(c.builder(), x, axis));
  } else {
    SNUG_ASSIGN_OR_RETURN(Ref ref, InOrder(c.builder(), x));
    y = Plain(std::move(ref));
  }
  const Dims dims(x.shape.begin() + axis, x.shape.end());
  SNUG_ASSIGN_OR_RETURN(const Tensor weight, WeightInput(c, 1, "Scale", dims));
  Weights weights = {{"weight", weight}, {"bias", Zeros(dims)}};
  if (c.has(2)) {
    SNUG_ASSIGN_OR_RETURN(weights[1].second, WeightInput(c, 2, "B", dims));
  }
  proto::Layer layer;
  proto::LayerNorm* norm = layer.mutable_layer_norm();
  if (axes != 1) norm->set_axes(axes);
  if (AsWritten(epsilon) != 1e-5) norm->set_epsilon(AsWritten(epsilon));
  SNUG_ASSIGN_OR_RETURN(y.ref, c.Layer(std::move(layer), {y.ref}, weights, &weight));
  c.Set(0, std::move(y));
  return absl::OkStatus();
}

absl::Status Lrn(NodeContext& c) {
  SNUG_ASSIGN_OR_RETURN(const Ref x, ChannelInput(c));
  SNUG_ASSIGN_OR_RETURN(const int64_t size, c.Int("size", 0));
  if (size % 2 == 0) return absl::InvalidArgumentError("attribute size: expected an odd number of channels");
  SNUG_ASSIGN_OR_RETURN(const double alpha, c.Float("alpha", 1e-4));
  SNUG_ASSIGN_OR_RETURN(const double beta, c.Float("beta", 0.75));
  SNUG_ASSIGN_OR_RETURN(const double bias, c.Float("bias", 1));
  proto::Layer layer;
  proto::LocalResponseNorm* norm = layer.mutable_local_response_norm();
  norm->set_size(size);
  if (AsWritten(alpha) != 1e-4) norm->set_alpha(AsWritten(alpha));
  if (AsWritten(beta) != 0.75) norm->set_beta(AsWritten(beta));
  if (bias != 1) norm->set_k(AsWritten(bias));
  SNUG_ASSIGN_OR_RETURN(Ref y, c.Layer(std::move(layer), {x}));
  c.SetRef(0, std::move(y));
  return absl::OkStatus();
}

absl::Status SoftmaxLike(NodeContext& c, bool logarithm) {
  SNUG_ASSIGN_OR_RETURN(const Value x, c.Computed(0));
  SNUG_ASSIGN_OR_RETURN(int axis, c.AxisAttribute(c.opset() < 13 ? 1 : -1, x.rank()));
  Value y = x;
  // Before version 13 all axes from this one on are one.
  const bool merged = c.opset() < 13 && axis != x.rank() - 1;
  if (merged) {
    SNUG_ASSIGN_OR_RETURN(const int64_t outer, CountElements(Dims(x.shape.begin(), x.shape.begin() + axis)));
    SNUG_ASSIGN_OR_RETURN(const int64_t inner, CountElements(Dims(x.shape.begin() + axis, x.shape.end())));
    SNUG_ASSIGN_OR_RETURN(y, Reshaped(c.builder(), x, {outer, inner}));
    axis = 1;
  }
  if (y.axes[static_cast<size_t>(axis)].size() != 1 || BatchAxis(y) == axis) {
    SNUG_ASSIGN_OR_RETURN(y, WithLast(c.builder(), y, axis));
  }
  const int own = y.axes[static_cast<size_t>(axis)][0];
  proto::Layer layer;
  proto::Softmax* softmax = logarithm ? layer.mutable_log_softmax() : layer.mutable_softmax();
  if (own != static_cast<int>(y.ref.dims.size()) - 1) softmax->set_axis(own);
  SNUG_ASSIGN_OR_RETURN(y.ref, c.Layer(std::move(layer), {y.ref}));
  if (merged) {
    SNUG_ASSIGN_OR_RETURN(y, Reshaped(c.builder(), y, x.shape));
  }
  c.Set(0, std::move(y));
  return absl::OkStatus();
}

absl::Status Softmax(NodeContext& c) { return SoftmaxLike(c, false); }
absl::Status LogSoftmax(NodeContext& c) { return SoftmaxLike(c, true); }

}  // namespace

std::vector<NamedMapping> NormMappings() {
  return {{"BatchNormalization", BatchNormalization},
          {"InstanceNormalization", InstanceNormalization},
          {"GroupNormalization", GroupNormalization},
          {"LayerNormalization", LayerNormalization},
          {"LRN", Lrn},
          {"Softmax", Softmax},
          {"LogSoftmax", LogSoftmax}};
}

}  // namespace snug::core::onnx
