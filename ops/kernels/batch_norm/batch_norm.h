// Batch normalisation over every axis but 1, with an activation and an addition in the same sweep: the batch_norm ops
// share this. There are two kernels: a plain one, which shows what is computed, and a fast one for float32 and
// bfloat16.
//
// The forward pass reads x twice (statistics, then normalisation). The backward pass reads x and dy twice (two sums for
// each channel, then dx) and works out from x what the activation let through. Where the masked gradient is asked for
// too, the first reading writes it and the second one takes it in place of dy. In plain layout a channel is done from
// start to end, so the second reading comes from the cache.
#pragma once

#include <absl/status/status.h>

#include <cstdint>
#include <type_traits>

#include "engine/base/host_device.h"
#include "engine/graph/value_type.h"
#include "ops/activation.h"
#include "ops/kernel_context.h"
#include "ops/kit/dispatch.h"
#include "ops/kit/float32_port.h"
#include "ops/prepare_context.h"

namespace snug::core {

// Sees x as [outer, channels, inner] in memory. Inner is 1 for channels-last data and for rank 2.
struct ChannelView {
  explicit ChannelView(const ValueType& x);
  ChannelView(int64_t outer_count, int64_t channel_count, int64_t inner_count)
      : outer(outer_count), channels(channel_count), inner(inner_count) {}
  int64_t outer, channels, inner;
  SNUG_HOST_DEVICE int64_t count() const { return outer * inner; }  // the number of elements in one channel
};

// y = activation((x - mean) / sqrt(var + epsilon) * weight + bias + add). The activation is none, relu or relu6.
template <class T>
struct BatchNormForward {
  const T* x;
  const T* add = nullptr;  // null: 0
  T* y;
  const Float32Port<T>* weight = nullptr;  // [C]; null: 1
  const Float32Port<T>* bias = nullptr;    // [C]; null: 0
  // All are [C]. Either mean and var are given, or those of the batch are computed and written (the variance with 1/n).
  const Float32Port<T>* mean = nullptr;
  const Float32Port<T>* var = nullptr;
  Float32Port<T>* batch_mean = nullptr;
  Float32Port<T>* batch_var = nullptr;
  double epsilon;
  Activation activation = Activation::kIdentity;
  bool silu = false;  // silu is the activation, without an addition; not in the fast kernels for bfloat16
};

// Let g be dy + dy2 where the activation lets it through, n the number of elements in a channel, and
// x' = (x - mean - mean_rest) inv_std. Then
//   dbias = sum(g), dweight = sum(g x'), dadd = g,
//   dx = weight inv_std (g - (dbias + x' dweight) / n) if `training`, else weight inv_std g.
// dy + dy2 is rounded to T, so the bits are those of a sum that was stored. If y is there, it tells what the activation
// lets through; otherwise this is computed anew as in the forward pass, without an addition.
//
// It may work in place: dx may lie on any of x, y, dy and dy2; dadd may lie on y, dy or dy2, but not on x, which is
// read after dadd is written.
template <class T>
struct BatchNormBackward {
  const T* y = nullptr;  // given if and only if dadd is asked for
  const T* x;
  const Float32Port<T>* weight = nullptr;
  const Float32Port<T>* bias = nullptr;  // needed by an activation without y
  const Float32Port<T>* mean;
  // Null: 0. Where a mean is known to more digits than it has, the rest of it; not together with an activation.
  const Float32Port<T>* mean_rest = nullptr;
  const Float32Port<T>* var;
  const T* dy;
  const T* dy2 = nullptr;  // null: 0; only together with dadd
  T* dx;
  T* dadd = nullptr;  // null: not asked for
  Float32Port<T>* dweight;
  Float32Port<T>* dbias;
  double epsilon;
  bool training;
  Activation activation = Activation::kIdentity;
  // silu is the activation: g is dy times its slope there, which is written to dx before dx is made of it. So dx may
  // lie on dy, but not on x. Neither y, dy2 nor dadd is given.
  bool silu = false;
};

// dx of BatchNormBackward in training, where dy is what the activation let through, and its dweight and dbias are
// there. It may lie on x or dy.
template <class T>
struct BatchNormGradInput {
  const T* x;
  const Float32Port<T>* weight = nullptr;
  const Float32Port<T>* mean;
  const Float32Port<T>* var;
  const T* dy;
  const Float32Port<T>* dweight;
  const Float32Port<T>* dbias;
  T* dx;
  double epsilon;
};

// Says whether a gradient passes the activation. `v` is the activation's output or its input: both tell.
template <class A>
SNUG_HOST_DEVICE bool LetsThrough(Activation activation, A v) {
  if (activation == Activation::kIdentity) return true;
  return v > 0 && (activation == Activation::kRelu || v < 6);
}

template <class T>
void BatchNormPlain(int threads, const ChannelView& view, const BatchNormForward<T>& call);
template <class T>
void BatchNormPlain(int threads, const ChannelView& view, const BatchNormBackward<T>& call);
template <class T>
void BatchNormPlain(int threads, const ChannelView& view, const BatchNormGradInput<T>& call);

// Returns the bytes of workspace that the fast kernels need.
int64_t BatchNormWorkspace(const ChannelView& view);
template <class T>
void BatchNormFast(int threads, const ChannelView& view, const BatchNormForward<T>& call, void* workspace);
template <class T>
void BatchNormFast(int threads, const ChannelView& view, const BatchNormBackward<T>& call, void* workspace);
// This one needs less.
int64_t BatchNormGradInputWorkspace(const ChannelView& view);
template <class T>
void BatchNormFast(int threads, const ChannelView& view, const BatchNormGradInput<T>& call, void* workspace);

absl::Status PrepareBatchNorm(PrepareContext& c);

// The kernels of an op. Call::Make<T>(k) says what is to be done; input 0 gives the dtype and the shape.
template <class Call>
absl::Status BatchNormCpu(const KernelContext& k) {
  return DispatchFloating(k.input_type(0).dtype, [&](auto zero) {
    BatchNormPlain(k.threads(), ChannelView(k.input_type(0)), Call::template Make<decltype(zero)>(k));
    return absl::OkStatus();
  });
}
template <class Call>
absl::Status BatchNormCpuFast(const KernelContext& k) {
  return DispatchFloating(k.input_type(0).dtype, [&](auto zero) {
    using T = decltype(zero);
    if constexpr (std::is_same_v<T, double>) {
      return absl::InternalError("the fast batch norm was given float64");
    } else {
      BatchNormFast(k.threads(), ChannelView(k.input_type(0)), Call::template Make<T>(k), k.workspace());
      return absl::OkStatus();
    }
  });
}

}  // namespace snug::core
