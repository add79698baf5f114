#include "engine/cuda/cuda_libraries.h"

#include <utility>

#include "engine/base/status.h"
#include "engine/cuda/cublas_matmul.h"
#include "engine/cuda/cuda_table.h"
#include "engine/cuda/cudnn_attention.h"
#include "engine/cuda/cudnn_conv.h"

namespace snug::core::cuda {

namespace {

absl::Status RequireOptional(const Api& api, Library library) {
  const absl::Status there = api.Require(library);
  return there.ok() ? there : absl::UnimplementedError(there.message());
}

}  // namespace

StreamLibraries::StreamLibraries(CudaStream& stream) : stream_(stream) {}

StreamLibraries::~StreamLibraries() {
  if (cudnn_ == nullptr) return;
  stream_.device().MakeCurrent().IgnoreError();  // the handle is given back whatever happened
  convs_.reset();
  attentions_.reset();
#if SNUG_HAS_CUDNN
  stream_.device().api().table().cudnnDestroy(cudnn_);
#endif
}

absl::StatusOr<CublasMatMuls*> StreamLibraries::matmuls() {
  if (matmuls_ == nullptr) {
    SNUG_RETURN_IF_ERROR(RequireOptional(stream_.device().api(), Library::kCublasLt));
    SNUG_ASSIGN_OR_RETURN(matmuls_, CublasMatMuls::Create(stream_));
  }
  return matmuls_.get();
}

absl::StatusOr<CudnnConvs*> StreamLibraries::convs() {
  if (convs_ == nullptr) {
    SNUG_RETURN_IF_ERROR(StartCudnn());
    convs_ = std::make_unique<CudnnConvs>(stream_, cudnn_);
  }
  return convs_.get();
}

absl::StatusOr<CudnnAttentions*> StreamLibraries::attentions() {
  if (attentions_ == nullptr) {
    SNUG_RETURN_IF_ERROR(StartCudnn());
    attentions_ = std::make_unique<CudnnAttentions>(stream_, cudnn_);
  }
  return attentions_.get();
}

absl::Status StreamLibraries::StartCudnn() {
  const Api& api = stream_.device().api();
  SNUG_RETURN_IF_ERROR(RequireOptional(api, Library::kCudnn));
#if SNUG_HAS_CUDNN
  if (cudnn_ != nullptr) return absl::OkStatus();
  SNUG_RETURN_IF_ERROR(stream_.device().MakeCurrent());
  cudnnHandle_t handle = nullptr;
  SNUG_CUDA_CALL(api, cudnnCreate, (&handle), "starting cuDNN");
  const cudnnStatus_t code = api.table().cudnnSetStream(handle, stream_.handle());
  if (code != CUDNN_STATUS_SUCCESS) {
    api.table().cudnnDestroy(handle);
    return api.Error(Library::kCudnn, "cudnnSetStream", static_cast<int>(code), "starting cuDNN on a stream");
  }
  cudnn_ = handle;
#endif
  return absl::OkStatus();
}

const std::string* StreamLibraries::TakeRefusedAlgorithm() {
  const std::string* const product = matmuls_ == nullptr ? nullptr : matmuls_->TakeRefusedAlgorithm();
  const std::string* const conv = convs_ == nullptr ? nullptr : convs_->TakeRefusedAlgorithm();
  const std::string* const attention = attentions_ == nullptr ? nullptr : attentions_->TakeRefusedAlgorithm();
  return product != nullptr ? product : conv != nullptr ? conv : attention;
}

StreamLibraries& LibrariesOf(CudaStream& stream) { return stream.device().api().table().libraries->Of(stream); }

StreamLibraries& LibrariesOfStreams::Of(CudaStream& stream) {
  const std::lock_guard lock(mu_);
  std::unique_ptr<StreamLibraries>& libraries = by_handle_[stream.handle()];
  if (libraries == nullptr) libraries = std::make_unique<StreamLibraries>(stream);
  return *libraries;
}

void LibrariesOfStreams::Drop(const CudaStream& stream) {
  const std::lock_guard lock(mu_);
  by_handle_.erase(stream.handle());
}

}  // namespace snug::core::cuda
