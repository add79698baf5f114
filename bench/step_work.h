// What one training step asks of a kernel library, and what is left: its convolutions and matrix products, equal ones
// once with their number, and the bytes that everything else reads and writes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/base/dtype.h"
#include "engine/compile/pipeline.h"
#include "ops/kernels/conv/geometry.h"
#include "ops/registry.h"

namespace snug::core::bench {

// A convolution or matrix product as a kernel library is asked for it.
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

struct CountedCall {
  LibraryCall call;
  int count = 1;
};

struct StepWork {
  std::vector<CountedCall> calls;
  double other_bytes = 0;  // layout conversions are not counted: a perfect step has none
};

StepWork FindStepWork(const Compiled& compiled, const OpRegistry& registry);

// How fast oneDNN can be (onednn_best.cc): the time of one call in the best of the layouts it may be given. The median
// of several runs on data that is in memory already; the best over channels-last (row-major for matrices) and whatever
// layout the library asks for. Ends the program where the library fails.
double BestSeconds(const LibraryCall& call, int threads);

}  // namespace snug::core::bench
