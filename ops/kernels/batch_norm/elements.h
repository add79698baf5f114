// What batch normalisation's fast kernels compute of an element: what is added up of it in the first sweep, and what it
// becomes in the second one.
#pragma once

#include <cmath>
#include <cstdint>
#include <type_traits>

#include "engine/base/bfloat16.h"
#include "ops/activation.h"
#include "ops/kit/float_vectors.h"
#include "ops/kit/isa.h"
#include "ops/math/functions.h"

namespace snug::core::batch_norm {

inline constexpr int64_t kPatterns = 5;       // numbers of a channel
inline constexpr int64_t kShiftSamples = 16;  // elements of which a shift is the mean

// Which of `count` elements is sample k of a shift: one of each sixteenth, each time at another place of it. So they
// are not the same pixel of all images of a batch, whatever its size is, as corners would be, which padding makes
// alike.
constexpr int64_t SampleOf(int64_t count, int64_t k) {
  if (count <= kShiftSamples) return k;
  const int64_t place = (5 * k + 3) % kShiftSamples;
  return count * (k * kShiftSamples + place) / (kShiftSamples * kShiftSamples);
}

// These compute on F, which is float or a vector of the instruction set. Of float32 the compiler makes vectors;
// with bfloat16 it needs them, because its own way to round them has several times as many instructions.

// A channel's numbers, or those of some channels. Loops over rows of channels read them from five arrays, one behind
// the other: the patterns.
template <class F>
struct NumbersOf {
  F mean = {}, scale = {}, bias = {};  // normalised: (x - mean) scale + bias
  F offset = {}, slope = {};           // backward: dx = g scale + (x - mean) slope + offset
};
using Numbers = NumbersOf<float>;
static_assert(sizeof(Numbers) == kPatterns * sizeof(float));

// Returns the numbers that normalise a channel. They are the same bits forward and backward, because the backward pass
// computes anew what the activation let through.
template <class Call>
Numbers Normalising(const Call& call, int64_t c, double mean, double var) {
  const double weight = call.weight != nullptr ? static_cast<double>(call.weight[c]) : 1;
  return {.mean = static_cast<float>(mean),
          .scale = static_cast<float>(weight / std::sqrt(var + call.epsilon)),
          .bias = call.bias != nullptr ? call.bias[c] : 0.0F};
}

template <class F>
struct Pair {
  F a, b;
};

template <class F, class T>
SNUG_INLINE void Centred(const T* x, int64_t i, const NumbersOf<F>& c, F& to) {
  LoadScalarOrVector(x + i, to);
  to -= c.mean;
}

// Each of the following has the type of what it reads as Storage.
template <class T>
struct ForwardSums {  // what the pass of sums adds up; the shift is in place of the mean
  using Storage = T;
  const T* x;
  template <class F>
  SNUG_INLINE void operator()(int64_t i, const NumbersOf<F>& c, Pair<F>& sums) const {
    Centred(x, i, c, sums.a);
    sums.b = sums.a * sums.a;
  }
};

// Leaves of a gradient `g` what the activation lets through; `v` is the activation's output or its input.
template <Activation kActivation, class F>
SNUG_INLINE void LetThrough(const F& v, F& g) {
  if constexpr (kActivation == Activation::kRelu) g = v > 0.0F ? g : F{};
  // This is more than 0 just where v is between 0 and 6. Two comparisons that are joined, and g++ 12 joins what it can,
  // become scalars where F is a vector of AVX-512.
  if constexpr (kActivation == Activation::kRelu6) g = v * (6.0F - v) > 0.0F ? g : F{};
}

template <Activation kActivation, class T>
struct BackwardSums {
  using Storage = T;
  const T *x, *dy;
  template <class F>
  SNUG_INLINE void operator()(int64_t i, const NumbersOf<F>& c, Pair<F>& sums) const {
    F centred, g;
    Centred(x, i, c, centred);
    LoadScalarOrVector(dy + i, g);
    const F v = centred * c.scale + c.bias;
    LetThrough<kActivation>(v, g);
    sums.a = g;
    sums.b = g * centred;
  }
};

// Does the same where y is there to tell, and stores the gradient that the activation lets through.
template <Activation kActivation, bool kSecond, class T>
struct StoringBackwardSums {
  using Storage = T;
  const T *x, *y, *dy, *dy2;
  T* dadd;
  template <class F>
  SNUG_INLINE void operator()(int64_t i, const NumbersOf<F>& c, Pair<F>& sums) const {
    F g, v, centred;
    LoadScalarOrVector(dy + i, g);
    if constexpr (kSecond) {
      F second;
      LoadScalarOrVector(dy2 + i, second);
      g += second;
      if constexpr (std::is_same_v<T, BFloat16>) Rounded(g);
    }
    LoadScalarOrVector(y + i, v);
    LetThrough<kActivation>(v, g);
    Centred(x, i, c, centred);
    StoreScalarOrVector(g, dadd + i);
    sums.a = g;
    sums.b = g * centred;
  }
  // Makes g what it is once it was stored as a bfloat16.
  template <class F>
  static SNUG_INLINE void Rounded(F& g) {
    constexpr size_t kFloatBytes = sizeof(float);
    BFloat16 stored[sizeof(F) / kFloatBytes];
    StoreScalarOrVector(g, static_cast<BFloat16*>(stored));
    LoadScalarOrVector(static_cast<const BFloat16*>(stored), g);
  }
};

template <Activation kActivation, bool kAdd, class T>
struct ForwardElement {  // y = activation((x - mean) scale + bias + add)
  using Storage = T;
  const T *x, *add;
  T* y;
  template <class F>
  SNUG_INLINE void operator()(int64_t i, const NumbersOf<F>& c) const {
    F v;
    Centred(x, i, c, v);
    v = v * c.scale + c.bias;
    if constexpr (kAdd) {
      F added;
      LoadScalarOrVector(add + i, added);
      v += added;
    }
    if constexpr (kActivation != Activation::kIdentity) v = v < 0.0F ? F{} : v;
    if constexpr (kActivation == Activation::kRelu6) v = v > 6.0F ? F{} + 6.0F : v;
    StoreScalarOrVector(v, y + i);
  }
};

// silu needs more instructions than a sweep over memory has time for, so its gradient is worked out once, and stored
// for the second reading. These are for float32, whose F is always float.
struct SiluElement {  // y = silu((x - mean) scale + bias)
  using Storage = float;
  const float* x;
  float* y;
  template <class F>
  SNUG_INLINE void operator()(int64_t i, const NumbersOf<F>& c) const {
    static_assert(std::is_same_v<F, float>);
    y[i] = functions::Silu()((x[i] - c.mean) * c.scale + c.bias);
  }
};

struct StoringSiluSums {
  using Storage = float;
  const float *x, *dy;
  float* g;
  template <class F>
  SNUG_INLINE void operator()(int64_t i, const NumbersOf<F>& c, Pair<F>& sums) const {
    static_assert(std::is_same_v<F, float>);
    const float centred = x[i] - c.mean;
    sums.a = functions::SiluGrad()(centred * c.scale + c.bias, dy[i]);
    sums.b = sums.a * centred;
    g[i] = sums.a;
  }
};

template <Activation kActivation, class T>
struct BackwardElement {
  using Storage = T;
  const T *x, *dy;
  T* dx;
  template <class F>
  SNUG_INLINE void operator()(int64_t i, const NumbersOf<F>& c) const {
    F centred, g;
    Centred(x, i, c, centred);
    LoadScalarOrVector(dy + i, g);
    const F v = centred * c.scale + c.bias;
    LetThrough<kActivation>(v, g);
    const F result = g * c.scale + (centred * c.slope + c.offset);
    StoreScalarOrVector(result, dx + i);
  }
};

}  // namespace snug::core::batch_norm
