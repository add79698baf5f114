#include "engine/cuda/cuda_code_cache.h"

#include <absl/strings/str_cat.h>

#include <cstdlib>
#include <utility>

#include "engine/base/status.h"
#include "engine/cuda/code_file.h"

namespace snug::core::cuda {

std::string DefaultCodeFolder() {
  const auto variable = [](const char* name) {
    const char* const text = std::getenv(name);
    return std::string(text == nullptr ? "" : text);
  };
  if (const std::string given = variable("SNUG_KERNEL_CACHE"); !given.empty()) return given == "off" ? "" : given;
  if (const std::string caches = variable("XDG_CACHE_HOME"); !caches.empty() && caches[0] == '/')
    return caches + "/snug/kernels";
  const std::string home = variable("HOME");
  return home.empty() ? "" : home + "/.cache/snug/kernels";
}

absl::StatusOr<std::shared_ptr<const CudaCode>> CodeCache::Get(const CudaDevice& device, const KernelSource& source) {
  const Api& api = device.api();
  const DeviceInfo& info = device.info();
  SNUG_ASSIGN_OR_RETURN(std::string key, CompilerText(api, source.headers, info.major, info.minor));
  absl::StrAppend(&key, "\n", source.text);
  const std::lock_guard<std::mutex> lock(mu_);
  if (const auto found = loaded_.find(key); found != loaded_.end()) return found->second;
  std::shared_ptr<const CudaCode> loaded;
  if (const std::optional<std::string> kept = ReadCode(folder_, key); kept.has_value()) {
    // If the driver does not take the code any more, it is compiled again.
    if (auto code = CudaCode::Load(device.shared_api(), source.name, *kept); code.ok()) loaded = *std::move(code);
  }
  if (loaded == nullptr) {
    SNUG_ASSIGN_OR_RETURN(const std::string code, CompileForDevice(api, source, info.major, info.minor));
    SNUG_ASSIGN_OR_RETURN(loaded, CudaCode::Load(device.shared_api(), source.name, code));
    WriteCode(folder_, key, code);
  }
  loaded_.emplace(std::move(key), loaded);
  return loaded;
}

}  // namespace snug::core::cuda
