// Turns CUDA source that was written at run time into code for a device, by NVRTC. It needs neither a device nor the
// driver.
#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>
#include <absl/types/span.h>

#include <string>

#include "engine/cuda/cuda_api.h"

namespace snug::core::cuda {

// A file that a source may include.
struct SourceHeader {
  const char* name = nullptr;
  const char* text = nullptr;
};

struct KernelSource {
  std::string name;  // for messages
  std::string text;
  absl::Span<const SourceHeader> headers;  // they have to outlive it
};

// Returns all that the code depends on besides the source: compiler, version, options, headers.
absl::StatusOr<std::string> CompilerText(const Api& api, absl::Span<const SourceHeader> headers, int major, int minor);

// Compiles for devices of that compute capability, or to PTX, which the driver translates, if NVRTC is older than they
// are. Fails with FailedPrecondition if there is no NVRTC, or with Internal and what the compiler said.
absl::StatusOr<std::string> CompileForDevice(const Api& api, const KernelSource& source, int major, int minor);

// Checks that NVRTC is there and compiles a kernel that does nothing. If not, FailedPrecondition says why.
absl::Status TryCompiler(const Api& api);
// Does the same for this machine's NVRTC, wherever it is found.
absl::Status FindCompiler();

}  // namespace snug::core::cuda
