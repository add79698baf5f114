// Compiled code: loaded, and kept for later.
#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>
#include <absl/strings/string_view.h>
#include <absl/types/span.h>

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "engine/cuda/cuda_compile.h"
#include "engine/cuda/cuda_launch.h"

struct CUlib_st;

namespace snug::core::cuda {

// Code that NVRTC made and the driver has loaded, and launches of its kernels. Immutable. It serves every device of the
// generation that it was compiled for.
class CudaCode {
 public:
  // `name` is for messages.
  static absl::StatusOr<std::shared_ptr<const CudaCode>> Load(std::shared_ptr<const Api> api, std::string name,
                                                              const std::string& code);
  ~CudaCode();
  CudaCode(const CudaCode&) = delete;
  CudaCode& operator=(const CudaCode&) = delete;

  // Launches the kernel `entry`, whose one argument is a struct of these words. Without blocks nothing is done.
  absl::Status Launch(const CudaStream& stream, const char* entry, const LaunchShape& shape,
                      absl::Span<const uint64_t> argument) const;

 private:
  CudaCode(std::shared_ptr<const Api> api, std::string name, CUlib_st* handle)
      : api_(std::move(api)), name_(std::move(name)), handle_(handle) {}

  const std::shared_ptr<const Api> api_;
  const std::string name_;
  CUlib_st* const handle_;
};

// Returns the folder that SNUG_KERNEL_CACHE names, if it is set; "off" gives "", which means none. Otherwise it is
// snug/kernels in the user's folder of caches ($XDG_CACHE_HOME or ~/.cache).
std::string DefaultCodeFolder();

// Keeps compiled code: in memory as long as the cache lives, and in a folder for later processes. Its key is the source
// and all that the code depends on (CompilerText).
//
// The folder is a convenience. What cannot be read there is compiled anew, and what cannot be written is not kept.
// Entries that are not whole, or are something else's, are ignored and written over.
//
// Thread-safe: mu_ guards the map, and is held while something is compiled. It serves the devices of one Api.
class CodeCache {
 public:
  // Without a name there is no folder. A folder is made when the first entry is written.
  explicit CodeCache(std::string folder) : folder_(std::move(folder)) {}

  absl::StatusOr<std::shared_ptr<const CudaCode>> Get(const CudaDevice& device, const KernelSource& source);

 private:
  const std::string folder_;
  std::mutex mu_;
  std::map<std::string, std::shared_ptr<const CudaCode>> loaded_;  // indexed by key
};

// The folder has a file for each key (code_file.cc). It has the key in it and a hash over all, so that neither another
// key of the same name nor a file that was cut off passes for it.
//
// Says whether nobody but the user (and root) can put code into the folder: it is there, is theirs, and nobody else may
// write to it. This matters because the code runs on the device unasked.
bool IsPrivate(const std::string& folder);

// Returns nothing if the code is not there or not whole, or if the folder is not private or has no name.
std::optional<std::string> ReadCode(const std::string& folder, absl::string_view key);

// Makes the folder; the file appears whole or not at all. Nothing is written where that fails or the folder is not
// private.
void WriteCode(const std::string& folder, absl::string_view key, absl::string_view code);

// Returns the file in which the code is kept.
std::string CodePath(const std::string& folder, absl::string_view key);

}  // namespace snug::core::cuda
