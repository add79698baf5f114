// A pretended cuBLASLt. It computes on the host what it was told to, by the documentation alone: matrices by columns,
// each with its leading dimension, transposed and repeated as described, a bias along the rows of the result, the sums
// of a factor. A wrong description gives wrong numbers.
#pragma once

#include <functional>

#include "engine/cuda/cuda_table.h"

namespace snug::core::cuda::fake_cublas {

// The opaque structures hold these here.
struct Operation {
  cublasComputeType_t compute;
  cudaDataType_t scale;
  int32_t transpose_a, transpose_b;
  uint32_t epilogue;
  const void* bias;
  const void* beside;  // the epilogue's other operand
  int64_t beside_leading;
};
struct Matrix {
  cudaDataType_t type;
  uint64_t rows, columns;
  int64_t leading;
  int32_t count;
  int64_t step;
};
struct Preference {
  uint64_t workspace_bytes;
  uint32_t reductions;
  uint32_t alignments[4];  // of a, b, c and d, at least
};

cublasStatus_t Describe(cublasLtMatmulDesc_t to, size_t bytes, cublasComputeType_t compute, cudaDataType_t scale);
cublasStatus_t Set(cublasLtMatmulDesc_t to, cublasLtMatmulDescAttributes_t attribute, const void* value, size_t bytes);
cublasStatus_t Describe(cublasLtMatrixLayout_t to, size_t bytes, cudaDataType_t type, uint64_t rows, uint64_t columns,
                        int64_t leading);
cublasStatus_t Set(cublasLtMatrixLayout_t to, cublasLtMatrixLayoutAttribute_t attribute, const void* value,
                   size_t bytes);
cublasStatus_t Describe(cublasLtMatmulPreference_t to, size_t bytes);
cublasStatus_t Set(cublasLtMatmulPreference_t to, cublasLtMatmulPreferenceAttributes_t attribute, const void* value,
                   size_t bytes);

// Lists up to three algorithms, with the numbers 0 to 2, which take all the workspace there may be. Returns
// NOT_SUPPORTED for what the library does not document.
cublasStatus_t Choose(const Operation& operation, const Matrix& a, const Matrix& b, const Matrix& d,
                      const Preference& preference, int asked, cublasLtMatmulHeuristicResult_t* found, int* count);
int NumberOf(const cublasLtMatmulAlgo_t& algorithm);

struct Call {
  Operation operation;
  Matrix a, b, d;
  const void *alpha, *beta, *a_data, *b_data;
  void* d_data;
  const cublasLtMatmulAlgo_t* algorithm;
  void* workspace;
  size_t workspace_bytes;
};
// Puts into `work` what has to be done on the stream, or returns why it cannot be done.
cublasStatus_t Bind(const Call& call, std::function<void()>* work);

template <class Inside, class Opaque>
const Inside& Look(const Opaque* opaque) {
  static_assert(sizeof(Inside) <= sizeof(Opaque));
  return *reinterpret_cast<const Inside*>(opaque);
}

}  // namespace snug::core::cuda::fake_cublas
