// What the elementwise ops compute, element by element. There is one formula for each, for the processor's loops
// (kit/elementwise.h) and for CUDA's (elementwise.cu). It works in float (for float32 and bfloat16) or double. It is
// compiled into vector loops, so it may only have branches that a compiler can turn into selects.
#pragma once

#include <cmath>
#include <limits>

#include "engine/base/host_device.h"
#include "ops/kit/vec_math.h"

// SNUG_FUNCTIONS, at the end, lists them. Those in the list have CUDA kernels (elementwise.cu) and may be part of fused
// ones, which are compiled at run time and call them by name.
namespace snug::core::functions {

struct Add {
  template <class A>
  SNUG_HOST_DEVICE A operator()(A a, A b) const {
    return a + b;
  }
};

struct Sub {
  template <class A>
  SNUG_HOST_DEVICE A operator()(A a, A b) const {
    return a - b;
  }
};

struct Mul {
  template <class A>
  SNUG_HOST_DEVICE A operator()(A a, A b) const {
    return a * b;
  }
};

struct Div {
  template <class A>
  SNUG_HOST_DEVICE A operator()(A a, A b) const {
    return a / b;
  }
};

struct DivGrad {
  template <class A>
  SNUG_HOST_DEVICE A operator()(A y, A b, A dy) const {
    return -dy * y / b;
  }
};

struct Max {
  static constexpr bool kChooses = true;
  template <class A>
  SNUG_HOST_DEVICE A operator()(A a, A b) const {
    return a > b || a != a ? a : b;
  }
};

struct MaxGrad {  // the gradient of the first of the two
  template <class A>
  SNUG_HOST_DEVICE A operator()(A a, A b, A dy) const {
    return a < b ? A(0) : a == b ? dy * A(0.5) : dy;
  }
};

struct Min {
  static constexpr bool kChooses = true;
  template <class A>
  SNUG_HOST_DEVICE A operator()(A a, A b) const {
    return a < b || a != a ? a : b;
  }
};

struct Power {
  template <class A>
  SNUG_HOST_DEVICE A operator()(A a, A b) const {
    return Pow(a, b);
  }
};

struct PowerBaseGrad {
  template <class A>
  SNUG_HOST_DEVICE A operator()(A a, A b, A dy) const {
    return b == A(0) ? A(0) : dy * (b * Pow(a, b - A(1)));
  }
};

// This is 0 at a = 0 where b >= 0 (that is, where y is finite): the limit from there, as in PyTorch.
struct PowerExponentGrad {
  template <class A>
  SNUG_HOST_DEVICE A operator()(A a, A y, A dy) const {
    const A grad = dy * (y * Log(a));
    return a == A(0) && y <= A(1) ? A(0) : grad;
  }
};

struct Neg {
  static constexpr bool kChooses = true;
  template <class A>
  SNUG_HOST_DEVICE A operator()(A x) const {
    return -x;
  }
};

struct Abs {
  static constexpr bool kChooses = true;
  template <class A>
  SNUG_HOST_DEVICE A operator()(A x) const {
    return std::fabs(x);
  }
};

struct AbsGrad {
  template <class A>
  SNUG_HOST_DEVICE A operator()(A x, A dy) const {
    return x > A(0) ? dy : x < A(0) ? -dy : A(0);
  }
};

struct Square {
  template <class A>
  SNUG_HOST_DEVICE A operator()(A x) const {
    return x * x;
  }
};

struct SquareGrad {
  template <class A>
  SNUG_HOST_DEVICE A operator()(A x, A dy) const {
    return A(2) * x * dy;
  }
};

struct Sqrt {
  template <class A>
  SNUG_HOST_DEVICE A operator()(A x) const {
    return std::sqrt(x);
  }
};

struct SqrtGrad {
  template <class A>
  SNUG_HOST_DEVICE A operator()(A y, A dy) const {
    return dy / (A(2) * y);
  }
};

struct Exponential {
  template <class A>
  SNUG_HOST_DEVICE A operator()(A x) const {
    return Exp(x);
  }
};

struct Logarithm {
  template <class A>
  SNUG_HOST_DEVICE A operator()(A x) const {
    return Log(x);
  }
};

struct Sine {
  template <class A>
  SNUG_HOST_DEVICE A operator()(A x) const {
    return std::sin(x);
  }
};

struct SineGrad {
  template <class A>
  SNUG_HOST_DEVICE A operator()(A x, A dy) const {
    return dy * std::cos(x);
  }
};

struct Cosine {
  template <class A>
  SNUG_HOST_DEVICE A operator()(A x) const {
    return std::cos(x);
  }
};

struct CosineGrad {
  template <class A>
  SNUG_HOST_DEVICE A operator()(A x, A dy) const {
    return -dy * std::sin(x);
  }
};

struct Floor {
  template <class A>
  SNUG_HOST_DEVICE A operator()(A x) const {
    return std::floor(x);
  }
};

struct Sign {
  template <class A>
  SNUG_HOST_DEVICE A operator()(A x) const {
    return x > A(0) ? A(1) : x < A(0) ? A(-1) : A(0);
  }
};

struct Where {
  template <class A>
  SNUG_HOST_DEVICE A operator()(A condition, A a, A b) const {
    return condition != A(0) ? a : b;
  }
};

struct WhereGrad {  // the gradient of a
  template <class A>
  SNUG_HOST_DEVICE A operator()(A condition, A dy) const {
    return condition != A(0) ? dy : A(0);
  }
};

struct WhereElseGrad {  // the gradient of b
  template <class A>
  SNUG_HOST_DEVICE A operator()(A condition, A dy) const {
    return condition != A(0) ? A(0) : dy;
  }
};

struct Scale {
  double factor, offset;
  template <class A>
  SNUG_HOST_DEVICE A operator()(A x) const {
    return x * static_cast<A>(factor) + static_cast<A>(offset);
  }
};

// Limits x to at least min and at most max.
struct Range {
  double min = -std::numeric_limits<double>::infinity();
  double max = std::numeric_limits<double>::infinity();
};

struct Clip : Range {
  template <class A>
  SNUG_HOST_DEVICE A operator()(A x) const {
    const A low = static_cast<A>(min);
    const A high = static_cast<A>(max);
    return x < low ? low : x > high ? high : x;
  }
};

struct ClipGrad : Range {
  template <class A>
  SNUG_HOST_DEVICE A operator()(A x, A dy) const {
    return x < static_cast<A>(min) || x > static_cast<A>(max) ? A(0) : dy;
  }
};

struct Relu {
  static constexpr bool kChooses = true;
  template <class A>
  SNUG_HOST_DEVICE A operator()(A x) const {
    return x < A(0) ? A(0) : x;  // a NaN stays, so that a broken step is seen
  }
};

struct ReluGrad {
  static constexpr bool kChooses = true;
  template <class A>
  SNUG_HOST_DEVICE A operator()(A y, A dy) const {
    return y > A(0) ? dy : A(0);
  }
};

struct Relu6 {
  static constexpr bool kChooses = true;
  template <class A>
  SNUG_HOST_DEVICE A operator()(A x) const {
    return x < A(0) ? A(0) : x > A(6) ? A(6) : x;
  }
};

struct Relu6Grad {
  static constexpr bool kChooses = true;
  template <class A>
  SNUG_HOST_DEVICE A operator()(A y, A dy) const {
    return y > A(0) && y < A(6) ? dy : A(0);
  }
};

struct LeakyRelu {
  double slope;
  template <class A>
  SNUG_HOST_DEVICE A operator()(A x) const {
    return x > A(0) ? x : x * static_cast<A>(slope);
  }
};

struct LeakyReluGrad {
  double slope;
  template <class A>
  SNUG_HOST_DEVICE A operator()(A y, A dy) const {
    return y > A(0) ? dy : dy * static_cast<A>(slope);
  }
};

struct Sigmoid {
  template <class A>
  SNUG_HOST_DEVICE A operator()(A x) const {
    return core::Sigmoid(x);
  }
};

struct SigmoidGrad {
  template <class A>
  SNUG_HOST_DEVICE A operator()(A y, A dy) const {
    return dy * y * (A(1) - y);
  }
};

struct Tanh {
  template <class A>
  SNUG_HOST_DEVICE A operator()(A x) const {
    return core::Tanh(x);
  }
};

struct TanhGrad {
  template <class A>
  SNUG_HOST_DEVICE A operator()(A y, A dy) const {
    return dy * (A(1) - y * y);
  }
};

struct Silu {
  template <class A>
  SNUG_HOST_DEVICE A operator()(A x) const {
    return x * core::Sigmoid(x);
  }
};

struct SiluGrad {
  template <class A>
  SNUG_HOST_DEVICE A operator()(A x, A dy) const {
    const A s = core::Sigmoid(x);
    return dy * s * (A(1) + x * (A(1) - s));
  }
};

struct Softplus {  // max(x, 0) + log(1 + u) with u = exp(-|x|); the logarithm keeps the digits of a small u
  template <class A>
  SNUG_HOST_DEVICE A operator()(A x) const {
    const A u = Exp(-std::fabs(x));
    const A w = A(1) + u;
    const A rest = w == A(1) ? u : Log(w) * u / (w - A(1));
    return (x < A(0) ? A(0) : x) + rest;
  }
};

struct SoftplusGrad {
  template <class A>
  SNUG_HOST_DEVICE A operator()(A x, A dy) const {
    return dy * core::Sigmoid(x);
  }
};

// exp(x) - 1 with the digits of a small x, where x <= 0.
template <class A>
SNUG_HOST_DEVICE A ExpMinus1(A x) {
  const A t = core::Tanh(x * A(0.5));
  return A(2) * t / (A(1) - t);
}

struct Elu {
  double alpha;
  template <class A>
  SNUG_HOST_DEVICE A operator()(A x) const {
    return x > A(0) ? x : static_cast<A>(alpha) * ExpMinus1(x);
  }
};

struct EluGrad {
  double alpha;
  template <class A>
  SNUG_HOST_DEVICE A operator()(A y, A dy) const {
    return y > A(0) ? dy : dy * (y + static_cast<A>(alpha));
  }
};

inline constexpr double kSeluScale = 1.05070098735548049342;
inline constexpr double kSeluAlpha = 1.67326324235437728482;

struct Selu {
  template <class A>
  SNUG_HOST_DEVICE A operator()(A x) const {
    return x > A(0) ? x * A(kSeluScale) : A(kSeluScale * kSeluAlpha) * ExpMinus1(x);
  }
};

struct SeluGrad {
  template <class A>
  SNUG_HOST_DEVICE A operator()(A y, A dy) const {
    return y > A(0) ? dy * A(kSeluScale) : dy * (y + A(kSeluScale * kSeluAlpha));
  }
};

// tanh(log(1 + exp(x))), of exp(-|x|), which does not overflow.
template <class A>
SNUG_HOST_DEVICE A TanhOfSoftplus(A x) {
  const A u = Exp(-std::fabs(x));
  const A n = x < A(0) ? u * (u + A(2)) : A(1) + A(2) * u;
  return n / (n + (x < A(0) ? A(2) : A(2) * u * u));
}

struct Mish {
  template <class A>
  SNUG_HOST_DEVICE A operator()(A x) const {
    return x * TanhOfSoftplus(x);
  }
};

struct MishGrad {
  template <class A>
  SNUG_HOST_DEVICE A operator()(A x, A dy) const {
    const A t = TanhOfSoftplus(x);
    return dy * (t + x * core::Sigmoid(x) * (A(1) - t * t));
  }
};

struct HardTanhGrad : Range {
  template <class A>
  SNUG_HOST_DEVICE A operator()(A y, A dy) const {
    return y > static_cast<A>(min) && y < static_cast<A>(max) ? dy : A(0);
  }
};

struct Prelu {
  template <class A>
  SNUG_HOST_DEVICE A operator()(A x, A slope) const {
    return x > A(0) ? x : x * slope;
  }
};

struct PreluGrad {
  template <class A>
  SNUG_HOST_DEVICE A operator()(A x, A slope, A dy) const {
    return x > A(0) ? dy : dy * slope;
  }
};

struct PreluSlopeGrad {
  template <class A>
  SNUG_HOST_DEVICE A operator()(A x, A dy) const {
    return x > A(0) ? A(0) : dy * x;
  }
};

struct HardSigmoid {
  template <class A>
  SNUG_HOST_DEVICE A operator()(A x) const {
    const A shifted = x + A(3);
    return (shifted < A(0) ? A(0) : shifted > A(6) ? A(6) : shifted) / A(6);
  }
};

struct HardSigmoidGrad {
  template <class A>
  SNUG_HOST_DEVICE A operator()(A y, A dy) const {
    return y > A(0) && y < A(1) ? dy / A(6) : A(0);
  }
};

struct HardSwish {
  template <class A>
  SNUG_HOST_DEVICE A operator()(A x) const {
    const A shifted = x + A(3);
    return x * (shifted < A(0) ? A(0) : shifted > A(6) ? A(6) : shifted) / A(6);
  }
};

struct HardSwishGrad {
  template <class A>
  SNUG_HOST_DEVICE A operator()(A x, A dy) const {
    const A middle = dy * (x / A(3) + A(0.5));
    return x < A(-3) ? A(0) : x > A(3) ? dy : middle;
  }
};

inline constexpr double kRootHalf = 0.70710678118654752440;        // 1 / sqrt(2)
inline constexpr double kRootTwoOverPi = 0.79788456080286535588;   // sqrt(2 / pi)
inline constexpr double kRootHalfOverPi = 0.39894228040143267794;  // 1 / sqrt(2 pi)
inline constexpr double kCubic = 0.044715;

struct Gelu {
  template <class A>
  SNUG_HOST_DEVICE A operator()(A x) const {
    return A(0.5) * x * (A(1) + Erf(x * A(kRootHalf)));
  }
};

struct GeluGrad {
  template <class A>
  SNUG_HOST_DEVICE A operator()(A x, A dy) const {
    // It is no product, of which a compiler might make one step with the sum below, here this one and there the other.
    const A distribution = A(0.5) + A(0.5) * Erf(x * A(kRootHalf));
    const A density = ExpOrZero(A(-0.5) * x * x) * A(kRootHalfOverPi);
    return dy * (distribution + x * density);
  }
};

// Returns exp(-2 u) for the u whose tanh gelu takes. (1 + tanh(u)) / 2 is 1 / (1 + exp(-2 u)), a form
// without cancellation.
template <class A>
SNUG_INLINE A GeluTail(A x) {
  return ExpOrZero(A(-2 * kRootTwoOverPi) * (x + A(kCubic) * x * x * x));
}

struct GeluByTanh {
  template <class A>
  SNUG_HOST_DEVICE A operator()(A x) const {
    return x / (A(1) + GeluTail(x));
  }
};

struct GeluByTanhGrad {
  template <class A>
  SNUG_HOST_DEVICE A operator()(A x, A dy) const {
    // Further out the slope is 1, or less than 1e-35, and some of what follows might be infinite.
    const A bounded = core::internal::Select(x < A(-10), A(-10), x);
    const A z = core::internal::Select(bounded > A(10), A(10), bounded);
    const A tail = GeluTail(z);
    const A share = A(1) / (A(1) + tail);
    const A slope = A(2 * kRootTwoOverPi) * (A(1) + A(3 * kCubic) * z * z);
    return dy * (share + z * (share * (share * tail)) * slope);  // share * share might be 0 too early
  }
};

struct AbsoluteError {
  template <class A>
  SNUG_HOST_DEVICE A operator()(A x, A target) const {
    return std::fabs(x - target);
  }
};

struct AbsoluteErrorGrad {
  template <class A>
  SNUG_HOST_DEVICE A operator()(A x, A target, A dy) const {
    return x > target ? dy : x < target ? -dy : A(0);
  }
};

struct Huber {
  double delta;
  template <class A>
  SNUG_HOST_DEVICE A operator()(A x, A target) const {
    const A size = std::fabs(x - target);
    const A most = static_cast<A>(delta);
    return size < most ? A(0.5) * size * size : most * (size - A(0.5) * most);
  }
};

struct HuberGrad {
  double delta;
  template <class A>
  SNUG_HOST_DEVICE A operator()(A x, A target, A dy) const {
    const A error = x - target;
    const A most = static_cast<A>(delta);
    return dy * (error < -most ? -most : error > most ? most : error);
  }
};

struct BinaryCrossEntropy {  // -target log(s) - (1 - target) log(1 - s), s = sigmoid(x), where x and target x may
                             // cancel
  template <class A>
  SNUG_HOST_DEVICE A operator()(A x, A target) const {
    return (x < A(0) ? A(0) : x) - x * target + Softplus()(-std::fabs(x));
  }
};

struct BinaryCrossEntropyGrad {
  template <class A>
  SNUG_HOST_DEVICE A operator()(A x, A target, A dy) const {
    return dy * (core::Sigmoid(x) - target);
  }
};

struct KlDivergence {
  template <class A>
  SNUG_HOST_DEVICE A operator()(A x, A target) const {
    return target == A(0) ? A(0) : target * (Log(target) - x);
  }
};

struct KlDivergenceTargetGrad {
  template <class A>
  SNUG_HOST_DEVICE A operator()(A x, A target, A dy) const {
    return dy * (Log(target) + A(1) - x);
  }
};

struct Same {
  template <class A>
  SNUG_HOST_DEVICE A operator()(A x) const {
    return x;
  }
};

}  // namespace snug::core::functions

// There is a row for each function: its name, then those of its node's options that it needs. They are the numbers that
// initialise it, in their sequence; `f` is the function object.
// clang-format off
#define SNUG_FUNCTIONS(ROW) \
  ROW(Add) \
  ROW(Sub) \
  ROW(Mul) \
  ROW(Div) \
  ROW(DivGrad) \
  ROW(Max) \
  ROW(MaxGrad) \
  ROW(Min) \
  ROW(Power) \
  ROW(PowerBaseGrad) \
  ROW(PowerExponentGrad) \
  ROW(Neg) \
  ROW(Abs) \
  ROW(AbsGrad) \
  ROW(Square) \
  ROW(SquareGrad) \
  ROW(Sqrt) \
  ROW(SqrtGrad) \
  ROW(Exponential) \
  ROW(Logarithm) \
  ROW(Scale, f.factor, f.offset) \
  ROW(Clip, f.min, f.max) \
  ROW(ClipGrad, f.min, f.max) \
  ROW(Relu) \
  ROW(ReluGrad) \
  ROW(Relu6) \
  ROW(Relu6Grad) \
  ROW(LeakyRelu, f.slope) \
  ROW(LeakyReluGrad, f.slope) \
  ROW(Sigmoid) \
  ROW(SigmoidGrad) \
  ROW(Tanh) \
  ROW(TanhGrad) \
  ROW(Silu) \
  ROW(SiluGrad) \
  ROW(Softplus) \
  ROW(SoftplusGrad) \
  ROW(HardSigmoid) \
  ROW(HardSigmoidGrad) \
  ROW(HardSwish) \
  ROW(HardSwishGrad) \
  ROW(Gelu) \
  ROW(GeluGrad) \
  ROW(GeluByTanh) \
  ROW(GeluByTanhGrad) \
  ROW(Elu, f.alpha) \
  ROW(EluGrad, f.alpha) \
  ROW(Selu) \
  ROW(SeluGrad) \
  ROW(Mish) \
  ROW(MishGrad) \
  ROW(HardTanhGrad, f.min, f.max) \
  ROW(Sine) \
  ROW(SineGrad) \
  ROW(Cosine) \
  ROW(CosineGrad) \
  ROW(Floor) \
  ROW(Sign) \
  ROW(Where) \
  ROW(WhereGrad) \
  ROW(WhereElseGrad) \
  ROW(Prelu) \
  ROW(PreluGrad) \
  ROW(PreluSlopeGrad) \
  ROW(AbsoluteError) \
  ROW(AbsoluteErrorGrad) \
  ROW(Huber, f.delta) \
  ROW(HuberGrad, f.delta) \
  ROW(BinaryCrossEntropy) \
  ROW(BinaryCrossEntropyGrad) \
  ROW(KlDivergence) \
  ROW(KlDivergenceTargetGrad) \
  ROW(Same)
// clang-format on
