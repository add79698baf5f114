// The CUDA kernel of a fused chain. Its source is written when it is prepared; its code is compiled and loaded before
// the first step.
#pragma once

#include <absl/status/status.h>

#include <map>
#include <memory>
#include <mutex>
#include <tuple>

#include "engine/cuda/cuda_code_cache.h"
#include "ops/kernel_context.h"
#include "ops/kernels/fused/source.h"
#include "ops/prepare_context.h"

namespace snug::core {

// What prepare hands to the kernel. Thread-safe: mu_ guards the code, which differs by kind of device.
class FusedKernel {
 public:
  explicit FusedKernel(FusedSource source) : source_(std::move(source)) {}

  const FusedSource& source() const { return source_; }
  cuda::KernelSource ForCompiler() const;

  // Compiles the code for the device, or takes it from the cache, unless it is there already.
  absl::Status Load(cuda::CodeCache& cache, const cuda::CudaDevice& device) const;
  // Returns null before Load.
  std::shared_ptr<const cuda::CudaCode> CodeFor(const cuda::CudaDevice& device) const;

 private:
  const FusedSource source_;
  mutable std::mutex mu_;
  // What the code depends on: the API and the compute capability.
  using DeviceKind = std::tuple<std::shared_ptr<const cuda::Api>, int, int>;
  static DeviceKind KindOf(const cuda::CudaDevice& device);
  mutable std::map<DeviceKind, std::shared_ptr<const cuda::CudaCode>> code_;
};

absl::Status PrepareFusedCuda(PrepareContext& c);
// Loads the code itself if nobody has; then it cannot be recorded in a graph.
absl::Status FusedCuda(const KernelContext& k);

// The kernel row made of these functions. It is prepared as a FusedKernel.
KernelRow FusedCudaRow();
inline constexpr absl::string_view kFusedCudaRow = "nvrtc";

}  // namespace snug::core
