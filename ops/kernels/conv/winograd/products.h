// The products of Winograd's filtering (winograd.h): one for each of the 36 points, of a few tiles and channels.
#pragma once

#include <cstdint>

#include "ops/kernels/matmul/gemm_tile.h"

namespace snug::core::winograd {

// c [m, kOutBlock] (+)= a [m, k] b [k, kOutBlock] for each point. Where matrices of one point end, those of the next
// begin `..._point` floats after they began. A product is so short that the first-level cache has none of it when it
// begins: so what the next one reads is asked for while this one is computed.
struct PointProducts {
  int64_t m = 0, k = 0;
  StridedMatrix<float> a;  // one of its strides is 1
  int64_t a_point = 0;
  const float* panels = nullptr;  // b, [panel][k][columns of a register tile]
  int64_t panels_point = 0;
  bool panels_from_memory = false;  // they are asked for two pieces ahead, not one
  float* c = nullptr;
  int64_t c_point = 0;
  bool accumulate = false;  // otherwise c is overwritten
};
void MultiplyPoints(const PointProducts& products);

}  // namespace snug::core::winograd
