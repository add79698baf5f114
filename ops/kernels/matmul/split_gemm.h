// Large products in float32 by AMX, which multiplies bfloat16. Each number is the sum of three pieces of bfloat16, of 8
// bits each, that together have its 24; of the nine products of two numbers' pieces the six largest are added up in
// float32, as the other three are below the last bit of the result. AMX does these six in two thirds of the time
// that float32's own multiply-adds take, and sums are no less exact (tests/ops/split_gemm_test.cc).
//
// Their last bits are others, though, and at the ends of float32's range there are less: what bfloat16 rounds to
// infinity, from 3.39e38 on, becomes NaN, and of numbers and products below 1e-31 there are pieces, or products of
// pieces, that are too small for a normal number, which are 0. So it is an option (--split-products).
//
// A thread packs a block of a and one panel of b at a time, both as pieces in tiles. How the sum of an element is put
// together follows from k alone, so bits depend on neither blocks nor threads.
#pragma once

#include <cstdint>

#include "ops/activation.h"
#include "ops/kernels/matmul/gemm.h"

namespace snug::core {

// Says whether this machine has what it takes, and SNUG_ISA does not pretend that it has less.
bool MachineSplitsProducts();

// Says whether that pays for a product.
bool SplittingPays(int64_t m, int64_t n, int64_t k);

// On such a machine. `call` has a single product.
void SplitGemm(int threads, const GemmCall<float>& call, Activation activation, void* workspace);
int64_t SplitGemmWorkspaceBytes(int threads, int64_t m, int64_t n, int64_t k);

}  // namespace snug::core
