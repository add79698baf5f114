#include "engine/compile/fusion_compiler.h"

#include "engine/base/has_cuda.h"
#if SNUG_HAS_CUDA
#include "engine/cuda/cuda_compile.h"
#endif

namespace snug {

std::string LeaveOutFusionWithoutCompiler([[maybe_unused]] CompileOptions* options) {
#if SNUG_HAS_CUDA
  if (options->device.kind != Device::Kind::kCuda) return "";
  const absl::Status found = cuda::FindCompiler();
  if (!found.ok() && options->disabled_passes.insert("fuse_elementwise").second) return std::string(found.message());
#endif
  return "";
}

}  // namespace snug
