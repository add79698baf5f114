// CUDA's optional libraries, as one stream uses them: their handles, which are made when they are first needed. A
// library that is not there, or has nothing for a node, answers Unimplemented; then the next row of the op serves.
//
//   cuda::StreamLibraries& libraries = cuda::LibrariesOf(k.cuda()->stream());
//   SNUG_ASSIGN_OR_RETURN(cuda::CublasMatMuls* const products, libraries.matmuls());
//   return products->Run(product, arguments);
//
// This header includes none of CUDA's. What nvcc compiles knows nothing of this, so a stream's libraries are found by
// its handle.
#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "engine/cuda/cuda_api.h"
#include "engine/cuda/cuda_stream.h"

struct cudnnContext;

namespace snug::core::cuda {

class CublasMatMuls;    // cublas_matmul.h
class CudnnAttentions;  // cudnn_attention.h
class CudnnConvs;       // cudnn_conv.h

// Says whether cuBLASLt has nothing for what was asked of it, a node or one algorithm for it.
inline bool Refuses(const absl::Status& status) {
  return absl::IsUnimplemented(status) || absl::IsInvalidArgument(status);
}

// The stream must outlive it. It is thread-compatible, as the stream is.
class StreamLibraries {
 public:
  explicit StreamLibraries(CudaStream& stream);
  ~StreamLibraries();
  StreamLibraries(const StreamLibraries&) = delete;
  StreamLibraries& operator=(const StreamLibraries&) = delete;

  // Each fails with Unimplemented, and the reason, if the library is not there.
  absl::StatusOr<CublasMatMuls*> matmuls();
  absl::StatusOr<CudnnConvs*> convs();
  absl::StatusOr<CudnnAttentions*> attentions();

  // Returns what a library said as it refused the algorithm that it had chosen for what was asked of it last, and took
  // another one; null: it did not. It is told once, and is valid until something else is asked for.
  const std::string* TakeRefusedAlgorithm();

 private:
  absl::Status StartCudnn();

  CudaStream& stream_;
  cudnnContext* cudnn_ = nullptr;
  std::unique_ptr<CublasMatMuls> matmuls_;
  std::unique_ptr<CudnnConvs> convs_;
  std::unique_ptr<CudnnAttentions> attentions_;
};

// Returns the libraries of a stream, which live as long as it does.
StreamLibraries& LibrariesOf(CudaStream& stream);

// Holds what LibrariesOf returns; an Api's table has one. Thread-safe: mu_ guards the map.
class LibrariesOfStreams {
 public:
  StreamLibraries& Of(CudaStream& stream);
  void Drop(const CudaStream& stream);  // a stream calls this at its end

 private:
  std::mutex mu_;
  std::map<CUstream_st*, std::unique_ptr<StreamLibraries>> by_handle_;
};

}  // namespace snug::core::cuda
