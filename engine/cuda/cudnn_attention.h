// Attention by cuDNN's fused kernels: out = softmax(scale q k^T + mask) v for every head, with the logarithm of each
// query's sum of exponentials, and the gradients. The library reads and writes all operands where they lie, through
// strides.
//
// What is described is the whole computation, product by product (cudnn_graph.h); the library recognises the pattern.
// It has an operation for all of it, too, but in version 9.19 that one knows no causal mask.
//
// This header includes none of CUDA's.
#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <compare>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "engine/cuda/cuda_stream.h"

struct cudnnContext;

namespace snug::core::cuda {

// Says where the elements of a [batch, heads, length, width] operand lie: strides, in elements. Width is contiguous.
struct CudnnHeads {
  int64_t batch = 0, head = 0, row = 0;

  // NOLINTNEXTLINE(modernize-use-nullptr): clang-tidy 14 sees a 0 in it
  auto operator<=>(const CudnnHeads&) const = default;
};

// In bfloat16, with sums in float32. The gradients lie as what they are gradients of.
struct CudnnAttention {
  bool backward = false;
  int64_t batch = 0, heads = 0, queries = 0, keys = 0, width = 0;
  CudnnHeads q, k, v, out;
  float scale = 1;
  bool causal = false;  // query i sees keys 0 to i
  // The library may use so many bytes. If they are too few for all samples at once (backward it keeps the scores of all
  // that it works at), they are done in groups, one after the other.
  int64_t workspace_bytes = 0;
  int rank = 1;  // which of the engines that serve is taken, counted from 1; beyond the end of the list the last

  // NOLINTNEXTLINE(modernize-use-nullptr): clang-tidy 14 sees a 0 in it
  auto operator<=>(const CudnnAttention&) const = default;
};

// Addresses on the device, multiples of 16 bytes.
struct CudnnAttentionArguments {
  const void *q = nullptr, *k = nullptr, *v = nullptr;
  const void* out = nullptr;  // is written forward, and read backward
  const void* lse = nullptr;  // [batch, heads, queries] in float32; so is this
  const void* dout = nullptr;
  void *dq = nullptr, *dk = nullptr, *dv = nullptr;
  void* workspace = nullptr;
};

std::string Describe(const CudnnAttention& attention);  // for messages

// Returns how many samples are done at once where there are `workspace_bytes`, and how much they take. The samples are
// a divisor of the batch. Where even the least possible take more than there is, they are the answer.
struct CudnnAttentionGroup {
  int64_t samples = 1, workspace_bytes = 0;
};
CudnnAttentionGroup GroupWithin(const CudnnAttention& attention, int64_t workspace_bytes);

struct CudnnTarget;
class CudnnPlans;

// Describes the attention of one group to the library, and has its heuristics list engines for it.
absl::StatusOr<std::unique_ptr<CudnnPlans>> PlansOf(const CudnnTarget& target, const CudnnAttention& attention);

// The attention of one stream. It is thread-compatible, as the stream is.
class CudnnAttentions {
 public:
  CudnnAttentions(CudaStream& stream, cudnnContext* handle);
  ~CudnnAttentions();
  CudnnAttentions(const CudnnAttentions&) = delete;
  CudnnAttentions& operator=(const CudnnAttentions&) = delete;

  // Has the library prepare an engine, once. Fails with Unimplemented, and with what the library said, if it has none.
  absl::Status Settle(const CudnnAttention& attention);
  // Asks for the attention, and settles it if nobody has. If it fails with Unimplemented, as Settle does, nothing was
  // asked for.
  absl::Status Run(const CudnnAttention& attention, const CudnnAttentionArguments& arguments);
  // As StreamLibraries::TakeRefusedAlgorithm says.
  const std::string* TakeRefusedAlgorithm() { return std::exchange(refused_algorithm_, nullptr); }

 private:
  CudaStream& stream_;
  cudnnContext* const handle_;
  std::map<CudnnAttention, std::unique_ptr<CudnnPlans>> plans_;
  const std::string* refused_algorithm_ = nullptr;
};

}  // namespace snug::core::cuda
