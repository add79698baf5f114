// CUDA's optional libraries, as one stream uses them: their handles, made when they are first needed. A library that is
// not there, or has nothing for a node, answers Unimplemented: our own kernel serves then, and whoever asked for the
// node is told of it.
//
//   cuda::StreamLibraries& libraries = cuda::LibrariesOf(k.cuda()->stream());
//   SNUG_ASSIGN_OR_RETURN(cuda::CublasMatMuls* const products, libraries.matmuls());
//   absl::Status status = products->Run(product, arguments);
//   if (absl::IsUnimplemented(status)) libraries.Refused(cuda::Library::kCublasLt, status);
//
// Knows no CUDA header. What nvcc compiles knows nothing of this: a stream's libraries are found by its handle.
#pragma once

#include <absl/status/statusor.h>

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "engine/cuda/cuda_api.h"
#include "engine/cuda/cuda_stream.h"

namespace snug::cuda {

class CublasMatMuls;  // cublas_matmul.h
class CudnnConvs;     // cudnn_conv.h

// That a library did not do what a node's kernel asked of it.
struct Refusal {
  Library library = Library::kCublasLt;
  std::string why;
};

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

  // By the kernel that serves itself in place of the library; and what was said so since this was asked last.
  void Refused(Library library, const absl::Status& why) { refusal_ = {library, std::string(why.message())}; }
  std::optional<Refusal> TakeRefusal() { return std::exchange(refusal_, std::nullopt); }

 private:
  CudaStream& stream_;
  std::optional<Refusal> refusal_;
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
