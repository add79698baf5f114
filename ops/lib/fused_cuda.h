// The CUDA kernel of a fused chain: its source, written when it is prepared, and its code, compiled and loaded before
// the first step.
#pragma once

#include <absl/status/status.h>

#include <map>
#include <memory>
#include <mutex>
#include <tuple>

#include "engine/cuda/cuda_code_cache.h"
#include "ops/kernel_context.h"
#include "ops/lib/fused_source.h"
#include "ops/prepare_context.h"

namespace snug {

// What prepare hands to the kernel. Thread-safe: mu_ guards the code, of which there is one for each kind of device.
class FusedKernel {
 public:
  explicit FusedKernel(FusedSource source) : source_(std::move(source)) {}

  const FusedSource& source() const { return source_; }
  cuda::KernelSource ForCompiler() const;

  // Compiles it for the device, or takes it from the cache, unless that has been done.
  absl::Status Load(cuda::CodeCache& cache, const cuda::CudaDevice& device) const;
  // Null before Load.
  std::shared_ptr<const cuda::CudaCode> CodeFor(const cuda::CudaDevice& device) const;

 private:
  const FusedSource source_;
  mutable std::mutex mu_;
  using Kind = std::tuple<std::shared_ptr<const cuda::Api>, int, int>;  // of a device: with its compute capability
  static Kind KindOf(const cuda::CudaDevice& device);
  mutable std::map<Kind, std::shared_ptr<const cuda::CudaCode>> code_;
};

absl::Status PrepareFusedCuda(PrepareContext& c);
// Loads its code itself where nobody has; then it cannot be recorded in a graph.
absl::Status FusedCuda(const KernelContext& k);

// With these functions; prepared as a FusedKernel.
KernelRow FusedCudaRow();
inline constexpr absl::string_view kFusedCudaRow = "nvrtc";

}  // namespace snug
