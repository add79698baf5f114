// What the kernels of CUDA make the device do, by op and row: for predictions (engine/run/observe/roofline.h). An op's
// Cost says what its result needs; this says what a kernel does beyond that.
#pragma once

#include "engine/compile/executable.h"
#include "engine/run/observe/roofline.h"

namespace snug::core {

struct KernelWork {
  KernelKind kind = KernelKind::kStreaming;
  int launches = 1;
  double read_again = 0;    // how many times something as large as the largest input is read once more
  double flops_factor = 1;  // operations for each one that the result needs
};

KernelWork WorkOf(const OpDef& op, const Step& step);

// A product as tiles cut it: `count` times [m, k] by [k, n]. That of a convolution is the implicit one.
struct ProductShape {
  double count = 1, m = 1, n = 1, k = 1;
};
// `flops` are those of the node.
ProductShape ProductOf(const OpDef& op, const NodeTypes& types, double flops);

// Says whether the rows of every matrix begin at multiples of 16 bytes, as tensor cores want them.
bool AlignedForTensorCores(const NodeTypes& types);

}  // namespace snug::core
