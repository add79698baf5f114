#include "ops/kernels/batch_norm/ports.h"

#include <absl/strings/str_cat.h>

#include "engine/base/status.h"

namespace snug::core {

absl::Status CheckChannelPorts(const InferContext& c, int x, int first, int end) {
  SNUG_RETURN_IF_ERROR(c.CheckRank(x, 2, kMaxRank));
  for (int i = first; i < end; ++i) {
    if (c.has_input(i)) SNUG_RETURN_IF_ERROR(c.CheckShape(i, {c.shape(x)[1]}));
  }
  return absl::OkStatus();
}

absl::Status CheckEpsilon(const InferContext& c, double epsilon) {
  if (epsilon >= 0) return absl::OkStatus();
  return c.OptionError("epsilon", absl::StrCat("expected at least 0, found ", epsilon));
}

std::vector<Port> BatchNormInputs() {
  return {{"x"}, {"weight", PortType::kFloat32, true}, {"bias", PortType::kFloat32, true}};
}

std::vector<Port> BatchNormInferenceInputs() {
  return {{"x"},
          {"weight", PortType::kFloat32, true},
          {"bias", PortType::kFloat32, true},
          {"running_mean", PortType::kFloat32},
          {"running_var", PortType::kFloat32}};
}

std::vector<Port> BatchNormActivatedGradInputs() {
  return {{"x"},
          {"weight", PortType::kFloat32, true},
          {"bias", PortType::kFloat32, true},
          {"mean", PortType::kFloat32},
          {"var", PortType::kFloat32},
          {"dy"}};
}

std::vector<Port> BatchNormTrainingOutputs() {
  return {{"y"},
          {.name = "mean", .type = PortType::kFloat32, .no_gradient = true},
          {.name = "var", .type = PortType::kFloat32, .no_gradient = true}};
}

std::vector<Port> BatchNormGradOutputs() {
  return {{"dx"}, {"dweight", PortType::kFloat32}, {"dbias", PortType::kFloat32}};
}

absl::Status InferBatchNormTraining(InferContext& c, double epsilon) {
  SNUG_RETURN_IF_ERROR(CheckChannelPorts(c, 0, 1, 3));
  SNUG_RETURN_IF_ERROR(CheckEpsilon(c, epsilon));
  const ValueType& x = c.input(0);
  const int64_t count = ChannelView(x).count();
  if (count <= 1) {
    return c.InputError(0, absl::StrCat("expected more than one element per channel in training, found ", count,
                                        "; a larger batch helps"));
  }
  c.SetOutput(0, x);
  for (const int statistic : {1, 2}) c.SetOutput(statistic, Float32PortType(x.dtype), {x.shape[1]});
  return absl::OkStatus();
}

absl::Status InferBatchNormInference(InferContext& c, double epsilon) {
  SNUG_RETURN_IF_ERROR(CheckChannelPorts(c, 0, 1, 5));
  SNUG_RETURN_IF_ERROR(CheckEpsilon(c, epsilon));
  c.SetOutput(0, c.input(0));
  return absl::OkStatus();
}

absl::Status InferBatchNormGrad(InferContext& c) {
  SNUG_RETURN_IF_ERROR(CheckChannelPorts(c, 0, 1, 4));
  SNUG_RETURN_IF_ERROR(c.CheckShape(4, c.shape(0)));
  SetBatchNormGrads(c, 0);
  return absl::OkStatus();
}

absl::Status InferBatchNormActivatedGrad(InferContext& c, double epsilon) {
  SNUG_RETURN_IF_ERROR(CheckChannelPorts(c, 0, 1, 5));
  SNUG_RETURN_IF_ERROR(CheckEpsilon(c, epsilon));
  SNUG_RETURN_IF_ERROR(c.CheckShape(5, c.shape(0)));
  SetBatchNormGrads(c, 0);
  return absl::OkStatus();
}

void SetBatchNormGrads(InferContext& c, int x) {
  const ValueType& type = c.input(x);
  c.SetOutput(0, type);
  for (const int gradient : {1, 2}) c.SetOutput(gradient, Float32PortType(type.dtype), {type.shape[1]});
}

}  // namespace snug::core
