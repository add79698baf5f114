// The product of a dense layer on few samples, y = activation(x w^T + bias), where packing the weights would take as
// long as multiplying them: they are read where they are, each entry spread over a vector of samples, and x alone is
// packed, transposed, on the way from bfloat16 to float where it is that.
//
// Each thread takes some of the weights' rows and packs x by itself, as in blocked.h. Each element of y is one chain of
// multiply-adds in the order of k, so bits depend on nothing else.
#pragma once

#include "ops/activation.h"
#include "ops/kernels/matmul/gemm.h"

namespace snug::core {

// Says whether there is a loop for m samples: a vector has to be full, and x, packed, to stay in a cache.
constexpr bool IsShort(int64_t m) { return m >= 16 && m <= 128; }

// a is x [m, k], row by row, b is w transposed: b.row is 1, c is y. This is instantiated for x and y in BFloat16.
template <class A, class C>
void ShortGemm(int threads, const GemmCall<A, float, C>& call, Activation activation, void* workspace);
int64_t ShortGemmWorkspaceBytes(int threads, int64_t m, int64_t k);

}  // namespace snug::core
