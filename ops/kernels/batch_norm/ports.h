// What the batch norm ops share beside their kernels: their ports, what is checked of those, what is inferred, and the
// calls that they stand for. Ports are numbered in one of these ways:
//
//   training:         x, weight, bias                            ->  y, mean, var
//   inference:        x, weight, bias, running_mean, running_var  ->  y
//   gradient:         x, weight, mean, var, dy                    ->  dx, dweight, dbias
//   activated, its:   x, weight, bias, mean, var, dy              ->  dx, dweight, dbias
//
// The last is that of a batch norm with an activation, which is computed anew: this needs the bias too.
#pragma once

#include <absl/status/status.h>

#include <vector>

#include "ops/infer_context.h"
#include "ops/kernel_context.h"
#include "ops/kernels/batch_norm/batch_norm.h"
#include "ops/kit/float32_port.h"
#include "ops/op_def.h"

namespace snug::core {

// Checks that x has rank 2 or more, and that the ports [first, end) that are present have the shape [channels].
absl::Status CheckChannelPorts(const InferContext& c, int x, int first, int end);
absl::Status CheckEpsilon(const InferContext& c, double epsilon);

std::vector<Port> BatchNormInputs();
std::vector<Port> BatchNormInferenceInputs();
std::vector<Port> BatchNormActivatedGradInputs();
std::vector<Port> BatchNormTrainingOutputs();
std::vector<Port> BatchNormGradOutputs();

// The first also checks that channels have more than one element: a single one has no variance.
absl::Status InferBatchNormTraining(InferContext& c, double epsilon);
absl::Status InferBatchNormInference(InferContext& c, double epsilon);
absl::Status InferBatchNormGrad(InferContext& c);
absl::Status InferBatchNormActivatedGrad(InferContext& c, double epsilon);
// Sets dx, dweight and dbias of this x.
void SetBatchNormGrads(InferContext& c, int x);

// Returns the input, or null where it is absent.
template <class T>
const T* InputOrNull(const KernelContext& k, int i) {
  return k.has_input(i) ? k.input<T>(i) : nullptr;
}

template <class T>
BatchNormForward<T> BatchNormTrainingCall(const KernelContext& k, double epsilon) {
  using S = Float32Port<T>;
  return {.x = k.input<T>(0),
          .y = k.output<T>(0),
          .weight = InputOrNull<S>(k, 1),
          .bias = InputOrNull<S>(k, 2),
          .batch_mean = k.output<S>(1),
          .batch_var = k.output<S>(2),
          .epsilon = epsilon};
}

template <class T>
BatchNormForward<T> BatchNormInferenceCall(const KernelContext& k, double epsilon) {
  using S = Float32Port<T>;
  return {.x = k.input<T>(0),
          .y = k.output<T>(0),
          .weight = InputOrNull<S>(k, 1),
          .bias = InputOrNull<S>(k, 2),
          .mean = k.input<S>(3),
          .var = k.input<S>(4),
          .epsilon = epsilon};
}

template <class T>
BatchNormBackward<T> BatchNormGradCall(const KernelContext& k, double epsilon, bool training) {
  using S = Float32Port<T>;
  return {.x = k.input<T>(0),
          .weight = InputOrNull<S>(k, 1),
          .mean = k.input<S>(2),
          .var = k.input<S>(3),
          .dy = k.input<T>(4),
          .dx = k.output<T>(0),
          .dweight = k.output<S>(1),
          .dbias = k.output<S>(2),
          .epsilon = epsilon,
          .training = training};
}

// In training, without the activation, which the caller sets.
template <class T>
BatchNormBackward<T> BatchNormActivatedGradCall(const KernelContext& k, double epsilon) {
  using S = Float32Port<T>;
  return {.x = k.input<T>(0),
          .weight = InputOrNull<S>(k, 1),
          .bias = InputOrNull<S>(k, 2),
          .mean = k.input<S>(3),
          .var = k.input<S>(4),
          .dy = k.input<T>(5),
          .dx = k.output<T>(0),
          .dweight = k.output<S>(1),
          .dbias = k.output<S>(2),
          .epsilon = epsilon,
          .training = true};
}

}  // namespace snug::core
