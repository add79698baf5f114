// Batch normalisation over every axis but 1, with an activation and an addition in the same sweep: what the batch_norm
// ops share. Two kernels: a plain one, which shows what is computed, and a fast one for float32 and bfloat16.
//
// The forward pass reads x twice (statistics, then normalisation), the backward pass reads x and dy twice (two sums per
// channel, then dx); what the activation let through follows from x. Where the masked gradient is asked for too, the
// first reading writes it, and the second one takes it in place of dy. In plain layout a channel is done from start to
// end, so the second reading comes from the cache.
#pragma once

#include <absl/status/status.h>

#include <cstdint>
#include <type_traits>

#include "engine/graph/value_type.h"
#include "ops/infer_context.h"
#include "ops/kernel_context.h"
#include "ops/lib/dispatch.h"
#include "ops/lib/float32_port.h"

namespace snug {

// x seen as [outer, channels, inner] in memory; channels-last (and rank 2): inner is 1.
struct ChannelView {
  explicit ChannelView(const ValueType& x);
  int64_t outer, channels, inner;
  int64_t count() const { return outer * inner; }  // elements of one channel
};

enum class NormActivation : uint8_t { kIdentity, kRelu, kRelu6 };

// y = activation((x - mean) / sqrt(var + epsilon) * weight + bias + add)
template <class T>
struct BatchNormForward {
  const T* x;
  const T* add = nullptr;  // null: 0
  T* y;
  const Float32Port<T>* weight = nullptr;  // [C]; null: 1
  const Float32Port<T>* bias = nullptr;    // [C]; null: 0
  // [C]. Either the statistics are given, or those of the batch are computed and written (the variance with 1/n).
  const Float32Port<T>* mean = nullptr;
  const Float32Port<T>* var = nullptr;
  Float32Port<T>* batch_mean = nullptr;
  Float32Port<T>* batch_var = nullptr;
  double epsilon;
  NormActivation activation = NormActivation::kIdentity;
};

// With g = dy + dy2 where the activation lets it through, n elements in each channel,
// x' = (x - mean) inv_std:
//   dbias = sum(g), dweight = sum(g x'), dadd = g,
//   dx = weight inv_std (g - (dbias + x' dweight) / n) if `training`, else weight inv_std g
// dy + dy2 is rounded to T: the same bits as a sum that was stored. What the activation lets through is told by y where
// there is one, and otherwise computed anew as the forward pass did, without an addition.
//
// In place: dx may lie on any of x, y, dy and dy2; dadd on y, dy or dy2, but not on x, which is read after it.
template <class T>
struct BatchNormBackward {
  const T* y = nullptr;  // goes with dadd only
  const T* x;
  const Float32Port<T>* weight = nullptr;
  const Float32Port<T>* bias = nullptr;  // for an activation without y
  const Float32Port<T>* mean;
  const Float32Port<T>* var;
  const T* dy;
  const T* dy2 = nullptr;  // null: 0; goes with dadd only
  T* dx;
  T* dadd = nullptr;  // null: not asked for
  Float32Port<T>* dweight;
  Float32Port<T>* dbias;
  double epsilon;
  bool training;
  NormActivation activation = NormActivation::kIdentity;
};

template <class T>
void BatchNormPlain(int threads, const ChannelView& view, const BatchNormForward<T>& call);
template <class T>
void BatchNormPlain(int threads, const ChannelView& view, const BatchNormBackward<T>& call);

// Bytes of the fast kernels' workspace.
int64_t BatchNormWorkspace(const ChannelView& view);
template <class T>
void BatchNormFast(int threads, const ChannelView& view, const BatchNormForward<T>& call, void* workspace);
template <class T>
void BatchNormFast(int threads, const ChannelView& view, const BatchNormBackward<T>& call, void* workspace);

// Rank 2 or more, and the ports [first, end), where present, are of shape [channels].
absl::Status CheckChannelPorts(const InferContext& c, int x, int first, int end);
// A channel of one element has no variance.
absl::Status CheckChannelCount(const InferContext& c, int x);
absl::Status CheckEpsilon(const InferContext& c, double epsilon);

// The kernels of an op: make_call(zero of the node's dtype) gives the call. Input 0 tells the dtype and the shape.
template <class MakeCall>
absl::Status BatchNormPlainKernel(const KernelContext& k, MakeCall make_call) {
  return DispatchFloating(k.input_type(0).dtype, [&](auto zero) {
    BatchNormPlain(k.threads(), ChannelView(k.input_type(0)), make_call(zero));
    return absl::OkStatus();
  });
}
template <class MakeCall>
absl::Status BatchNormFastKernel(const KernelContext& k, MakeCall make_call) {
  return DispatchFloating(k.input_type(0).dtype, [&](auto zero) {
    if constexpr (std::is_same_v<decltype(zero), double>) {
      return absl::InternalError("the fast batch norm was given float64");
    } else {
      BatchNormFast(k.threads(), ChannelView(k.input_type(0)), make_call(zero), k.workspace());
      return absl::OkStatus();
    }
  });
}

// The input, or null where it is absent.
template <class T>
const T* InputOrNull(const KernelContext& k, int i) {
  return k.has_input(i) ? k.input<T>(i) : nullptr;
}

}  // namespace snug
