// The one table through which CUDA's libraries are called. It is filled with dlopen and dlsym (cuda_api.h), so that the
// program starts where they are missing; tests fill it with a pretended device (tests/cuda/fake_cuda.h).
//
//   SNUG_CUDA_CALL(api, cuMemAlloc, (&address, bytes), absl::StrCat("taking ", bytes, " bytes"));
#pragma once

#include <cuda.h>
#include <cuda_runtime_api.h>
#include <nvrtc.h>

#include "engine/cuda/cuda_api.h"
#include "engine/cuda/has_libraries.h"
#if SNUG_HAS_CUBLASLT
#include <cublasLt.h>
#endif
#if SNUG_HAS_CUDNN
#include <cudnn.h>
#endif

namespace snug::core::cuda {

class LibrariesOfStreams;  // cuda_libraries.h

struct Table {
  std::shared_ptr<LibrariesOfStreams> libraries;  // belong to the Api that has this table
#define SNUG_CUDA_FUNCTION(library, function) decltype(&::function) function = nullptr;
#include "engine/cuda/cuda_functions.inc"
#undef SNUG_CUDA_FUNCTION
};

inline Library LibraryOf(CUresult) { return Library::kDriver; }
inline Library LibraryOf(cudaError_t) { return Library::kRuntime; }
inline Library LibraryOf(nvrtcResult) { return Library::kNvrtc; }
#if SNUG_HAS_CUBLASLT
inline Library LibraryOf(cublasStatus_t) { return Library::kCublasLt; }
#endif
#if SNUG_HAS_CUDNN
inline Library LibraryOf(cudnnStatus_t) { return Library::kCudnn; }
#endif

}  // namespace snug::core::cuda

// Calls an entry of the table; when it fails, returns the error from the function around it. `doing` says what was
// being done ("taking 4096 bytes") and is evaluated only then. The arguments stand in parentheses.
#define SNUG_CUDA_CALL(api, function, arguments, doing)                                                            \
  do {                                                                                                             \
    const auto snug_code = (api).table().function arguments;                                                       \
    if (static_cast<int>(snug_code) != 0) [[unlikely]]                                                             \
      return (api).Error(::snug::core::cuda::LibraryOf(snug_code), #function, static_cast<int>(snug_code), doing); \
  } while (false)
