#include "engine/cuda/cuda_libraries.h"

#include <utility>

#include "engine/base/status.h"
#include "engine/cuda/cublas_matmul.h"
#include "engine/cuda/cuda_table.h"
#include "engine/cuda/cudnn_conv.h"

namespace snug::core::cuda {

namespace {

absl::Status RequireOptional(const Api& api, Library library) {
  const absl::Status there = api.Require(library);
  return there.ok() ? there : absl::UnimplementedError(there.message());
}

}  // namespace

StreamLibraries::StreamLibraries(CudaStream& stream) : stream_(stream) {}

StreamLibraries::~StreamLibraries() = default;

absl::StatusOr<CublasMatMuls*> StreamLibraries::matmuls() {
  if (matmuls_ == nullptr) {
    SNUG_RETURN_IF_ERROR(RequireOptional(stream_.device().api(), Library::kCublasLt));
    SNUG_ASSIGN_OR_RETURN(matmuls_, CublasMatMuls::Create(stream_));
  }
  return matmuls_.get();
}

absl::StatusOr<CudnnConvs*> StreamLibraries::convs() {
  if (convs_ == nullptr) {
    SNUG_RETURN_IF_ERROR(RequireOptional(stream_.device().api(), Library::kCudnn));
    SNUG_ASSIGN_OR_RETURN(convs_, CudnnConvs::Create(stream_));
  }
  return convs_.get();
}

const std::string* StreamLibraries::TakeRefusedAlgorithm() {
  const std::string* const product = matmuls_ == nullptr ? nullptr : matmuls_->TakeRefusedAlgorithm();
  const std::string* const conv = convs_ == nullptr ? nullptr : convs_->TakeRefusedAlgorithm();
  return product != nullptr ? product : conv;
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
