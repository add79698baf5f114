// Keeps compiled code: in memory as long as the cache lives, and in a folder for later processes. Its key is the source
// and all that the code depends on (CompilerText).
//
// The folder is a convenience. What cannot be read there is compiled anew, and what cannot be written is not kept.
// Entries that are not whole, or are something else's, are ignored and written over.
#pragma once

#include <absl/status/statusor.h>

#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "engine/cuda/cuda_code.h"
#include "engine/cuda/cuda_compile.h"

namespace snug::core::cuda {

// Returns the folder that SNUG_KERNEL_CACHE names, if it is set; "off" gives "", which means none. Otherwise it is
// snug/kernels in the user's folder of caches ($XDG_CACHE_HOME or ~/.cache).
std::string DefaultCodeFolder();

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

}  // namespace snug::core::cuda
