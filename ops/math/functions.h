// What the elementwise ops compute, element by element: one formula each, for the processor's loops (lib/elementwise.h)
// and for CUDA's (elementwise.cu). They work in float (for float32 and bfloat16) or double. They are compiled into
// vector loops, so they have no branches that a compiler cannot turn into selects.
#pragma once

#include <cmath>
#include <limits>

#include "engine/base/host_device.h"
#include "ops/lib/vec_math.h"

// OnCuda: there is a kernel of it (elementwise.cu lists them); also for a struct of an op that only adds how the
// numbers are taken from the node's options.
namespace snug::functions {

struct Add {
  using OnCuda = Add;
  template <class A>
  SNUG_HOST_DEVICE A operator()(A a, A b) const {
    return a + b;
  }
};

struct Sub {
  using OnCuda = Sub;
  template <class A>
  SNUG_HOST_DEVICE A operator()(A a, A b) const {
    return a - b;
  }
};

struct Mul {
  using OnCuda = Mul;
  template <class A>
  SNUG_HOST_DEVICE A operator()(A a, A b) const {
    return a * b;
  }
};

struct Div {
  using OnCuda = Div;
  template <class A>
  SNUG_HOST_DEVICE A operator()(A a, A b) const {
    return a / b;
  }
};

struct DivGrad {
  using OnCuda = DivGrad;
  template <class A>
  SNUG_HOST_DEVICE A operator()(A y, A b, A dy) const {
    return -dy * y / b;
  }
};

struct Max {
  using OnCuda = Max;
  template <class A>
  SNUG_HOST_DEVICE A operator()(A a, A b) const {
    return a > b || a != a ? a : b;
  }
};

struct MaxGrad {  // of the first of two
  using OnCuda = MaxGrad;
  template <class A>
  SNUG_HOST_DEVICE A operator()(A a, A b, A dy) const {
    return a < b ? A(0) : a == b ? dy * A(0.5) : dy;
  }
};

struct Min {
  using OnCuda = Min;
  template <class A>
  SNUG_HOST_DEVICE A operator()(A a, A b) const {
    return a < b || a != a ? a : b;
  }
};

struct Power {
  using OnCuda = Power;
  template <class A>
  SNUG_HOST_DEVICE A operator()(A a, A b) const {
    return Pow(a, b);
  }
};

struct PowerBaseGrad {
  using OnCuda = PowerBaseGrad;
  template <class A>
  SNUG_HOST_DEVICE A operator()(A a, A b, A dy) const {
    return b == A(0) ? A(0) : dy * (b * Pow(a, b - A(1)));
  }
};

// 0 at a = 0, where b >= 0 (that is, where y is finite): the limit from there, as in PyTorch.
struct PowerExponentGrad {
  using OnCuda = PowerExponentGrad;
  template <class A>
  SNUG_HOST_DEVICE A operator()(A a, A y, A dy) const {
    const A grad = dy * (y * Log(a));
    return a == A(0) && y <= A(1) ? A(0) : grad;
  }
};

struct Neg {
  using OnCuda = Neg;
  template <class A>
  SNUG_HOST_DEVICE A operator()(A x) const {
    return -x;
  }
};

struct Abs {
  using OnCuda = Abs;
  template <class A>
  SNUG_HOST_DEVICE A operator()(A x) const {
    return std::fabs(x);
  }
};

struct AbsGrad {
  using OnCuda = AbsGrad;
  template <class A>
  SNUG_HOST_DEVICE A operator()(A x, A dy) const {
    return x > A(0) ? dy : x < A(0) ? -dy : A(0);
  }
};

struct Square {
  using OnCuda = Square;
  template <class A>
  SNUG_HOST_DEVICE A operator()(A x) const {
    return x * x;
  }
};

struct SquareGrad {
  using OnCuda = SquareGrad;
  template <class A>
  SNUG_HOST_DEVICE A operator()(A x, A dy) const {
    return A(2) * x * dy;
  }
};

struct Sqrt {
  using OnCuda = Sqrt;
  template <class A>
  SNUG_HOST_DEVICE A operator()(A x) const {
    return std::sqrt(x);
  }
};

struct SqrtGrad {
  using OnCuda = SqrtGrad;
  template <class A>
  SNUG_HOST_DEVICE A operator()(A y, A dy) const {
    return dy / (A(2) * y);
  }
};

struct Exponential {
  using OnCuda = Exponential;
  template <class A>
  SNUG_HOST_DEVICE A operator()(A x) const {
    return Exp(x);
  }
};

struct Logarithm {
  using OnCuda = Logarithm;
  template <class A>
  SNUG_HOST_DEVICE A operator()(A x) const {
    return Log(x);
  }
};

struct Scale {
  using OnCuda = Scale;
  double factor, offset;
  template <class A>
  SNUG_HOST_DEVICE A operator()(A x) const {
    return x * static_cast<A>(factor) + static_cast<A>(offset);
  }
};

// At least min and at most max.
struct Range {
  double min = -std::numeric_limits<double>::infinity();
  double max = std::numeric_limits<double>::infinity();
};

struct Clip : Range {
  using OnCuda = Clip;
  template <class A>
  SNUG_HOST_DEVICE A operator()(A x) const {
    const A low = static_cast<A>(min);
    const A high = static_cast<A>(max);
    return x < low ? low : x > high ? high : x;
  }
};

struct ClipGrad : Range {
  using OnCuda = ClipGrad;
  template <class A>
  SNUG_HOST_DEVICE A operator()(A x, A dy) const {
    return x < static_cast<A>(min) || x > static_cast<A>(max) ? A(0) : dy;
  }
};

struct Relu {
  using OnCuda = Relu;
  template <class A>
  SNUG_HOST_DEVICE A operator()(A x) const {
    return x < A(0) ? A(0) : x;  // NaN stays NaN, so that a broken step is seen
  }
};

struct ReluGrad {
  using OnCuda = ReluGrad;
  template <class A>
  SNUG_HOST_DEVICE A operator()(A y, A dy) const {
    return y > A(0) ? dy : A(0);
  }
};

struct Relu6 {
  using OnCuda = Relu6;
  template <class A>
  SNUG_HOST_DEVICE A operator()(A x) const {
    return x < A(0) ? A(0) : x > A(6) ? A(6) : x;
  }
};

struct Relu6Grad {
  using OnCuda = Relu6Grad;
  template <class A>
  SNUG_HOST_DEVICE A operator()(A y, A dy) const {
    return y > A(0) && y < A(6) ? dy : A(0);
  }
};

struct LeakyRelu {
  using OnCuda = LeakyRelu;
  double slope;
  template <class A>
  SNUG_HOST_DEVICE A operator()(A x) const {
    return x > A(0) ? x : x * static_cast<A>(slope);
  }
};

struct LeakyReluGrad {
  using OnCuda = LeakyReluGrad;
  double slope;
  template <class A>
  SNUG_HOST_DEVICE A operator()(A y, A dy) const {
    return y > A(0) ? dy : dy * static_cast<A>(slope);
  }
};

struct Sigmoid {
  using OnCuda = Sigmoid;
  template <class A>
  SNUG_HOST_DEVICE A operator()(A x) const {
    return snug::Sigmoid(x);
  }
};

struct SigmoidGrad {
  using OnCuda = SigmoidGrad;
  template <class A>
  SNUG_HOST_DEVICE A operator()(A y, A dy) const {
    return dy * y * (A(1) - y);
  }
};

struct Tanh {
  using OnCuda = Tanh;
  template <class A>
  SNUG_HOST_DEVICE A operator()(A x) const {
    return snug::Tanh(x);
  }
};

struct TanhGrad {
  using OnCuda = TanhGrad;
  template <class A>
  SNUG_HOST_DEVICE A operator()(A y, A dy) const {
    return dy * (A(1) - y * y);
  }
};

struct Silu {
  using OnCuda = Silu;
  template <class A>
  SNUG_HOST_DEVICE A operator()(A x) const {
    return x * snug::Sigmoid(x);
  }
};

struct SiluGrad {
  using OnCuda = SiluGrad;
  template <class A>
  SNUG_HOST_DEVICE A operator()(A x, A dy) const {
    const A s = snug::Sigmoid(x);
    return dy * s * (A(1) + x * (A(1) - s));
  }
};

struct HardSigmoid {
  using OnCuda = HardSigmoid;
  template <class A>
  SNUG_HOST_DEVICE A operator()(A x) const {
    const A shifted = x + A(3);
    return (shifted < A(0) ? A(0) : shifted > A(6) ? A(6) : shifted) / A(6);
  }
};

struct HardSigmoidGrad {
  using OnCuda = HardSigmoidGrad;
  template <class A>
  SNUG_HOST_DEVICE A operator()(A y, A dy) const {
    return y > A(0) && y < A(1) ? dy / A(6) : A(0);
  }
};

struct HardSwish {
  using OnCuda = HardSwish;
  template <class A>
  SNUG_HOST_DEVICE A operator()(A x) const {
    const A shifted = x + A(3);
    return x * (shifted < A(0) ? A(0) : shifted > A(6) ? A(6) : shifted) / A(6);
  }
};

struct HardSwishGrad {
  using OnCuda = HardSwishGrad;
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
  using OnCuda = Gelu;
  template <class A>
  SNUG_HOST_DEVICE A operator()(A x) const {
    return A(0.5) * x * (A(1) + Erf(x * A(kRootHalf)));
  }
};

struct GeluGrad {
  using OnCuda = GeluGrad;
  template <class A>
  SNUG_HOST_DEVICE A operator()(A x, A dy) const {
    const A distribution = A(0.5) * (A(1) + Erf(x * A(kRootHalf)));
    const A density = Exp(A(-0.5) * x * x) * A(kRootHalfOverPi);
    return dy * (distribution + x * density);
  }
};

struct GeluByTanh {
  using OnCuda = GeluByTanh;
  template <class A>
  SNUG_HOST_DEVICE A operator()(A x) const {
    const A t = snug::Tanh(A(kRootTwoOverPi) * (x + A(kCubic) * x * x * x));
    return A(0.5) * x * (A(1) + t);
  }
};

struct GeluByTanhGrad {
  using OnCuda = GeluByTanhGrad;
  template <class A>
  SNUG_HOST_DEVICE A operator()(A x, A dy) const {
    const A t = snug::Tanh(A(kRootTwoOverPi) * (x + A(kCubic) * x * x * x));
    const A slope = A(kRootTwoOverPi) * (A(1) + A(3 * kCubic) * x * x);
    return dy * A(0.5) * ((A(1) + t) + x * (A(1) - t * t) * slope);
  }
};

struct Same {
  using OnCuda = Same;
  template <class A>
  SNUG_HOST_DEVICE A operator()(A x) const {
    return x;
  }
};

}  // namespace snug::functions
