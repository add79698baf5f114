// Scaled dot-product attention: what lies where, and two pairs of kernels. The plain ones compute each score whenever
// they need it and keep nothing. The fast ones go through blocks of queries and keys with matrix products in registers
// and cache; of the [queries, keys] scores only a block exists at a time (Dao et al. 2022, FlashAttention), so memory
// is linear in the length. The forward pass leaves the logarithm of each query's sum of exponentials, from which the
// backward pass computes the blocks again.
#pragma once

#include <absl/status/status.h>

#include <array>
#include <cstdint>
#include <functional>

#include "engine/base/dtype.h"
#include "engine/base/host_device.h"
#include "engine/base/shape.h"
#include "ops/kernel_context.h"
#include "ops/kernel_row.h"
#include "ops/node_types.h"

namespace snug::core {

// Says where the elements of a [batch, heads, length, width] operand lie. The axes may lie in any order in memory, but
// width is contiguous.
struct AttentionOperand {
  int64_t batch = 0, head = 0, row = 0;  // strides of these axes

  SNUG_HOST_DEVICE int64_t Offset(int64_t b, int64_t h, int64_t i) const { return b * batch + h * head + i * row; }
};

struct AttentionSizes {
  int64_t batch = 0, heads = 0, queries = 0, keys = 0, width = 0;
  AttentionOperand q, k, out;        // dq lies like q; v, dk and dv lie like k; dout lies like out
  std::array<int64_t, 4> mask = {};  // strides over [batch, heads, queries, keys]; 0: broadcast
  double scale = 1;
  bool causal = false;  // query i sees keys 0 to i

  // Returns how many keys a query sees.
  SNUG_HOST_DEVICE int64_t KeysOf(int64_t query) const { return causal && query + 1 < keys ? query + 1 : keys; }
};

template <class T>
struct AttentionForward {
  const T *q = nullptr, *k = nullptr, *v = nullptr;
  const T* mask = nullptr;  // null: no mask
  T* out = nullptr;
  Accumulator<T>* lse = nullptr;  // [batch, heads, queries]: the logarithm of each query's sum of exponentials
};

template <class T>
struct AttentionBackward {
  const T *q = nullptr, *k = nullptr, *v = nullptr;
  const T* mask = nullptr;
  const T *out = nullptr, *dout = nullptr;
  const Accumulator<T>* lse = nullptr;
  T *dq = nullptr, *dk = nullptr, *dv = nullptr;
};

template <class T>
void PlainAttention(int threads, const AttentionSizes& sizes, const AttentionForward<T>& call);
template <class T>
void PlainAttentionGrad(int threads, const AttentionSizes& sizes, const AttentionBackward<T>& call);

// These are instantiated for float and BFloat16.
template <class T>
void BlockedAttention(int threads, const AttentionSizes& sizes, const AttentionForward<T>& call, void* workspace);
template <class T>
void BlockedAttentionGrad(int threads, const AttentionSizes& sizes, const AttentionBackward<T>& call, void* workspace);
int64_t BlockedAttentionWorkspaceBytes(int threads, const AttentionSizes& sizes);
int64_t BlockedAttentionGradWorkspaceBytes(int threads, const AttentionSizes& sizes);

// On CUDA. Memory is linear in the length: of the scores only what a block of threads works at exists, and the backward
// pass computes them again. Products of bfloat16 whose width is a multiple of 8, 128 at most, are done by tensor cores
// (cuda_tensor_core.cu), all others by ordinary arithmetic (cuda.cu).
template <class T>
absl::Status AttentionCuda(const KernelContext& k, const AttentionSizes& sizes, const AttentionForward<T>& call);
// Its workspace has a number for each query of each head, an Accumulator<T>.
template <class T>
absl::Status AttentionGradCuda(const KernelContext& k, const AttentionSizes& sizes, const AttentionBackward<T>& call);

inline bool FitsTensorCores(const AttentionSizes& s) {
  // A number of a mask is found by 32 bits.
  return s.width % 8 == 0 && s.width <= 128 && s.queries * s.keys < int64_t{1} << 31 &&
         (s.q.batch | s.q.head | s.q.row | s.k.batch | s.k.head | s.k.row | s.out.batch | s.out.head | s.out.row) % 8 ==
             0;
}
// `deltas` has the sum of dout out for each query of each head.
absl::Status AttentionByTensorCores(const KernelContext& k, const AttentionSizes& sizes,
                                    const AttentionForward<BFloat16>& call);
absl::Status AttentionGradByTensorCores(const KernelContext& k, const AttentionSizes& sizes,
                                        const AttentionBackward<BFloat16>& call, const float* deltas);

// The rows of cuDNN's fused kernels (cudnn.cc), for bfloat16 without a mask. The functions say what a node's numbers
// and addresses are.
using AttentionSizesOf = std::function<AttentionSizes(const NodeTypes&)>;
KernelRow CudnnAttentionRow(const AttentionSizesOf& sizes, const std::function<bool(const NodeTypes&)>& has_mask,
                            std::function<AttentionForward<BFloat16>(const KernelContext&)> call);
KernelRow CudnnAttentionGradRow(const AttentionSizesOf& sizes, const std::function<bool(const NodeTypes&)>& has_mask,
                                std::function<AttentionBackward<BFloat16>(const KernelContext&)> call);

// The rows of cuBLASLt's products with a kernel of ours between them (cublaslt.cc), for float32.
KernelRow CublasAttentionRow(const AttentionSizesOf& sizes,
                             std::function<AttentionForward<float>(const KernelContext&)> call);
KernelRow CublasAttentionGradRow(const AttentionSizesOf& sizes,
                                 std::function<AttentionBackward<float>(const KernelContext&)> call);

}  // namespace snug::core
