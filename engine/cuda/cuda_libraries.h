// CUDA's optional libraries, as one stream uses them: their handles, made when they are first needed. A library that is
// not there, or has nothing for a node, answers Unimplemented: the next row of the op serves then.
//
//   cuda::StreamLibraries& libraries = cuda::LibrariesOf(k.cuda()->stream());
//   SNUG_ASSIGN_OR_RETURN(cuda::CublasMatMuls* const products, libraries.matmuls());
//   return products->Run(product, arguments);
//
// Knows no CUDA header. What nvcc compiles knows nothing of this: a stream's libraries are found by its handle.
#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <map>
#include <memory>
#include <mutex>

#include "engine/cuda/cuda_api.h"
#include "engine/cuda/cuda_stream.h"

namespace snug::cuda {

class CublasMatMuls;  // cublas_matmul.h
class CudnnConvs;     // cudnn_conv.h

// Whether a library has nothing for what was asked of it, a node or one algorithm for it.
inline bool Refuses(const absl::Status& status) {
  return absl::IsUnimplemented(status) || absl::IsInvalidArgument(status);
}

// The stream must outlive it. Thread-compatible, as the stream.
class StreamLibraries {
 public:
  explicit StreamLibraries(CudaStream& stream);
  ~StreamLibraries();
  StreamLibraries(const StreamLibraries&) = delete;
  StreamLibraries& operator=(const StreamLibraries&) = delete;

  // Unimplemented, with the reason: the library is not there.
  absl::StatusOr<CublasMatMuls*> matmuls();
  absl::StatusOr<CudnnConvs*> convs();

 private:
  CudaStream& stream_;
  std::unique_ptr<CublasMatMuls> matmuls_;
  std::unique_ptr<CudnnConvs> convs_;
};

// As long as the stream.
StreamLibraries& LibrariesOf(CudaStream& stream);

// Behind LibrariesOf: an Api's table has one. Thread-safe: mu_ guards the map.
class LibrariesOfStreams {
 public:
  StreamLibraries& Of(CudaStream& stream);
  void Drop(const CudaStream& stream);  // its end

 private:
  std::mutex mu_;
  std::map<CUstream_st*, std::unique_ptr<StreamLibraries>> by_handle_;
};

}  // namespace snug::cuda
