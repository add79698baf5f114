// NVRTC: CUDA source that was written at run time becomes code for a device. Needs no device, nor the driver.
#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>
#include <absl/types/span.h>

#include <string>

#include "engine/cuda/cuda_api.h"

namespace snug::cuda {

// A file that a source may include.
struct SourceHeader {
  const char* name = nullptr;
  const char* text = nullptr;
};

struct KernelSource {
  std::string name;  // for messages
  std::string text;
  absl::Span<const SourceHeader> headers;  // outlive it
};

// All that the code depends on beside the source: compiler, version, options, headers.
absl::StatusOr<std::string> CompilerText(const Api& api, absl::Span<const SourceHeader> headers, int major, int minor);

// For devices of that compute capability; PTX, which the driver translates, where NVRTC is older than they are.
// FailedPrecondition without NVRTC; Internal, with what the compiler said.
absl::StatusOr<std::string> CompileForDevice(const Api& api, const KernelSource& source, int major, int minor);

// Whether NVRTC is there and compiles a kernel that does nothing; FailedPrecondition says why not.
absl::Status TryCompiler(const Api& api);
// The same of this machine's NVRTC, wherever it is found.
absl::Status FindCompiler();

}  // namespace snug::cuda
