#include "engine/run/cuda/cuda_uploads.h"

#include "engine/base/status.h"

namespace snug::core {

absl::StatusOr<std::unique_ptr<CudaUploads>> CudaUploads::Create(const std::shared_ptr<const cuda::CudaDevice>& device,
                                                                 int64_t bytes) {
  std::unique_ptr<CudaUploads> uploads(new CudaUploads());
  SNUG_ASSIGN_OR_RETURN(uploads->arena_, cuda::CudaArena::Create(device, bytes));
  SNUG_ASSIGN_OR_RETURN(uploads->taken_, cuda::CudaEvent::Create(device));
  SNUG_ASSIGN_OR_RETURN(uploads->stream_, cuda::CudaStream::Create(device));
  return uploads;
}

bool CudaUploads::Claim(const void* owner) {
  if (owner_ == nullptr) owner_ = owner;
  return owner_ == owner;
}

void CudaUploads::GiveBack(const void* owner) {
  if (owner_ == owner) owner_ = nullptr;
}

}  // namespace snug::core
