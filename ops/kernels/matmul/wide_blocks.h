// Large products of float32 and bfloat16 on AVX-512 and AVX2, which are added up in float32. A thread packs a block of
// a into strips, and a group of columns of b into panels, and multiplies some rows by all panels of a group at a time.
// Registers hold eight rows of three vectors of c, or six rows of two. What comes next, of all three matrices, is asked
// for meanwhile, line by line.
//
// blocked.cc, which does all other products, asks for memory only just before it packs it, and packs many panels at
// once: that is slower where matrices come from memory, as those of a network do.
#pragma once

#include <cstdint>

#include "ops/activation.h"
#include "ops/kernels/matmul/gemm.h"

namespace snug::core::wide_blocks {

// Says whether a product is computed so where the machine can. That follows from sizes alone, so that plans do not
// depend on the machine: each has room for either way.
bool AreFor(int64_t m, int64_t n, int64_t k);

// The most that any thread has of c.
struct Most {
  int64_t rows, columns;
};

// How many floats each thread needs. Sums of a c in bfloat16 are kept apart.
int64_t Floats(const Most& most, int64_t k, bool sums_apart);

// Computes rows [row, row + rows) and columns [column, column + columns) of c, on the caller's thread. Each element is
// one chain of multiply-adds in the order of k. Blocks are as large as `most` says, which Floats() was given: those of
// fewer rows, cut by themselves, may be larger.
struct Part {
  int64_t row, rows, column, columns;
  Most most;
};
template <class A, class B, class C>
void Multiply(const GemmCall<A, B, C>& call, Activation activation, const Part& part, float* workspace);

}  // namespace snug::core::wide_blocks
