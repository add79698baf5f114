#include "ops/platform.h"

#include <absl/strings/str_cat.h>
#include <absl/strings/str_join.h>

#include <cstdlib>
#include <vector>

#include "engine/base/has_cuda.h"
#include "engine/base/status.h"
#include "ops/kit/isa.h"
#if SNUG_HAS_CUDA
#include "engine/cuda/cuda_device.h"
#endif
#if SNUG_HAS_ONEDNN
#include "ops/kit/onednn.h"
#endif

namespace snug::core {

Platform CpuPlatform() {
#if SNUG_HAS_ONEDNN
  const std::string library = "oneDNN " + onednn::Version();
#else
  const std::string library = "none";
#endif
  return {.device = "cpu", .instructions = std::string(Name(CurrentIsa())), .library = library};
}

absl::Status CheckIsaVariable() {
  const char* wanted = std::getenv("SNUG_ISA");
  if (wanted == nullptr || IsaCalled(wanted).has_value()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("environment variable SNUG_ISA: expected ", Name(Isa::kBaseline), ", ",
                                                 Name(Isa::kAvx2), " or ", Name(Isa::kAvx512), ", found \"", wanted,
                                                 "\""));
}

#if SNUG_HAS_CUDA

Platform CudaPlatform(const cuda::DeviceInfo& device) {
  std::vector<std::string> libraries;
  for (const cuda::LibraryState& state : cuda::FindLibraries()) {
    const bool has_kernels = state.library == cuda::Library::kCublasLt || state.library == cuda::Library::kCudnn ||
                             state.library == cuda::Library::kNvrtc;
    if (has_kernels && state.problem.empty()) {
      libraries.push_back(absl::StrCat(cuda::Name(state.library), " ", state.version));
    }
  }
  return {.device = device.name,
          .instructions = absl::StrCat("sm_", device.major, device.minor),
          .library = libraries.empty() ? "none" : absl::StrJoin(libraries, ", ")};
}

absl::StatusOr<Platform> PlatformOf(const Device& device) {
  if (device.kind == Device::Kind::kCpu) return CpuPlatform();
  SNUG_ASSIGN_OR_RETURN(const std::shared_ptr<const cuda::Api> api, cuda::Api::Load());
  SNUG_ASSIGN_OR_RETURN(const cuda::DeviceInfo info, cuda::FindDevice(*api, device.index));
  return CudaPlatform(info);
}

#else

absl::StatusOr<Platform> PlatformOf(const Device& device) {
  if (device.kind == Device::Kind::kCpu) return CpuPlatform();
  return absl::FailedPreconditionError("this build has no CUDA");
}

#endif

}  // namespace snug::core
