// What a warp does with tiles of bfloat16: copies from global to shared memory that run while it computes, loads of 8x8
// matrices from shared memory, products on tensor cores. Each is one instruction of devices since sm_80. It is for .cu
// files; when g++ compiles them for the tests, tests/cuda/emulation/tensor_core.h has the same functions.
//
// A tile of products is [16, 8] numbers in float32, 4 of them in each lane: with row = lane / 4 and column = lane % 4 *
// 2, those at (row, column), (row, column + 1), (row + 8, column) and (row + 8, column + 1).
#pragma once

#include <cstdint>

#if !defined(SNUG_CUDA_EMULATION)

namespace snug::core {

namespace internal {
__device__ inline uint32_t InShared(const void* address) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(address));
}
}  // namespace internal

// Begins to copy 16 bytes to shared memory, or to set them to zero. Both addresses are multiples of 16. `from` is not
// read where `there` is false.
__device__ inline void CopyAsync16(void* to, const void* from, bool there) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(internal::InShared(to)), "l"(from),
               "r"(there ? 16 : 0)
               : "memory");
}
// Makes a group of the copies that this thread has begun since the last call.
__device__ inline void CommitCopies() { asm volatile("cp.async.commit_group;" ::: "memory"); }
// Waits for the copies of this thread but for its kLeft newest groups. Those of others need a barrier besides.
template <int kLeft>
__device__ inline void WaitForCopies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kLeft) : "memory");
}

// Loads four 8x8 matrices of 16-bit numbers from shared memory. Lane 8 m + r says where row r of matrix m lies, its 8
// numbers one after the other. parts[m] becomes numbers 2 (lane % 4) and the next one of row lane / 4 of matrix m.
__device__ inline void LoadMatrices(const void* row, uint32_t (&parts)[4]) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(parts[0]), "=r"(parts[1]), "=r"(parts[2]), "=r"(parts[3])
               : "r"(internal::InShared(row))
               : "memory");
}
// Does the same, but of the transposed matrices.
__device__ inline void LoadMatricesTransposed(const void* row, uint32_t (&parts)[4]) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(parts[0]), "=r"(parts[1]), "=r"(parts[2]), "=r"(parts[3])
               : "r"(internal::InShared(row))
               : "memory");
}

// Adds to `sums` the product of a [16, 16] and b [16, 8], which are bfloat16. The four parts of a are its 8x8 matrices
// at (0, 0), (8, 0), (0, 8), (8, 8), as LoadMatrices gives them; b0 and b1 those of b transposed: its columns are rows.
__device__ inline void MultiplyAdd(float (&sums)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};"
      : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// Rounds two numbers to bfloat16; the first has the lower bits.
__device__ inline uint32_t PairOf(float first, float second) {
  uint32_t pair;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(second), "f"(first));
  return pair;
}

// Returns 2^x, with an error of at most 2 ulp. It is what the device has an instruction for.
__device__ inline float FastExp2(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

}  // namespace snug::core

#endif
