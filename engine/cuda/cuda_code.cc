#include "engine/cuda/cuda_code.h"

#include <absl/strings/str_cat.h>

#include <utility>

#include "engine/base/status.h"
#include "engine/cuda/cuda_table.h"

namespace snug::core::cuda {

absl::StatusOr<std::shared_ptr<const CudaCode>> CudaCode::Load(std::shared_ptr<const Api> api, std::string name,
                                                               const std::string& code) {
  CUlibrary handle = nullptr;
  SNUG_CUDA_CALL(*api, cuLibraryLoadData, (&handle, code.data(), nullptr, nullptr, 0, nullptr, nullptr, 0),
                 absl::StrCat("loading the kernel of ", name));
  return std::shared_ptr<const CudaCode>(new CudaCode(std::move(api), std::move(name), handle));
}

CudaCode::~CudaCode() { api_->table().cuLibraryUnload(handle_); }

absl::Status CudaCode::Launch(const CudaStream& stream, const char* entry, const LaunchShape& shape,
                              absl::Span<const uint64_t> argument) const {
  if (shape.blocks == 0) return absl::OkStatus();
  SNUG_RETURN_IF_ERROR(stream.device().MakeCurrent());
  const auto doing = [&] { return absl::StrCat("launching the kernel of ", name_); };
  CUkernel kernel = nullptr;
  SNUG_CUDA_CALL(*api_, cuLibraryGetKernel, (&kernel, handle_, entry), doing());
  void* arguments[] = {const_cast<uint64_t*>(argument.data())};
  // A CUkernel can be passed as a CUfunction, and then means that of the current context.
  SNUG_CUDA_CALL(*api_, cuLaunchKernel,
                 (reinterpret_cast<CUfunction>(kernel), static_cast<unsigned>(shape.blocks), 1, 1,
                  static_cast<unsigned>(shape.threads), 1, 1, 0, stream.handle(), arguments, nullptr),
                 doing());
  return absl::OkStatus();
}

}  // namespace snug::core::cuda
