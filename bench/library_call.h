// A convolution or matrix product as a kernel library is asked for it.
#pragma once

#include <cstdint>
#include <string>

#include "engine/base/dtype.h"
#include "ops/kernels/conv/geometry.h"

namespace snug::core::bench {

struct LibraryCall {
  enum class Kind { kConvForward, kConvBackwardData, kConvBackwardWeights, kMatMul };
  Kind kind = Kind::kMatMul;
  DType dtype = DType::kFloat32;
  ops::ConvGeometry conv;  // unless kMatMul
  // kMatMul: `batch` products [m, k] x [k, n]; a transposed one lies in memory as [k, m] or [n, k].
  int64_t batch = 1, m = 0, n = 0, k = 0;
  bool transpose_a = false, transpose_b = false;

  double multiply_adds() const;  // of one of them
  std::string ToString() const;  // equal calls have equal texts
};

}  // namespace snug::core::bench
