// Our own fast matrix product: a and b are packed block by block, after Goto and van de Geijn ("Anatomy of
// High-Performance Matrix Multiplication"), in a planned workspace, and multiplied in register tiles (gemm_tile.h).
// Packing takes any strides and turns bfloat16 into float on the way, so transposed and bfloat16 operands cost no
// copies. Rows of an a in float32 are read where they are, but where they are a multiple of 4096 bytes apart. Except
// on the baseline, large products go another way (wide_blocks.h).
//
// Each thread takes a rectangle of c and packs what it needs for it by itself: part of that is packed several times,
// but no thread waits for another one or reads what another core has just written, which costs more, above all between
// processors that share no cache. Each element of c is one chain of multiply-adds in the order of k, so bits depend on
// neither blocks nor threads.
#pragma once

#include "ops/activation.h"
#include "ops/kernels/matmul/gemm.h"

namespace snug::core {

// These are instantiated for float and BFloat16, for a and c in BFloat16 with b in float (parameters as they are), and
// for c in float with the others in BFloat16 (their gradient). `call` has a single product.
template <class A, class B, class C>
void BlockedGemm(int threads, const GemmCall<A, B, C>& call, Activation activation, void* workspace);
template <class C>
int64_t BlockedGemmWorkspaceBytes(int threads, int64_t m, int64_t n, int64_t k);

}  // namespace snug::core
