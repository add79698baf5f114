#include "ops/kernels/activation/in_place.h"

#include "engine/base/bfloat16.h"
#include "ops/kit/elementwise.h"
#include "ops/math/functions.h"

namespace snug::core {

template <class T>
void ActivateInPlace(int threads, int64_t count, Activation activation, T* y) {
  const auto sweep = [&](const auto& function) { Map(threads, count, function, y, static_cast<const T*>(y)); };
  switch (activation) {
    case Activation::kIdentity:
      return;
    case Activation::kRelu:
      return sweep(functions::Relu());
    case Activation::kRelu6:
      return sweep(functions::Relu6());
    case Activation::kSigmoid:
      return sweep(functions::Sigmoid());
    case Activation::kTanh:
      return sweep(functions::Tanh());
  }
}

template void ActivateInPlace(int, int64_t, Activation, float*);
template void ActivateInPlace(int, int64_t, Activation, double*);
template void ActivateInPlace(int, int64_t, Activation, BFloat16*);

}  // namespace snug::core
