#include "engine/cuda/cuda_code_cache.h"

#include <absl/strings/str_cat.h>
#include <absl/strings/strip.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <system_error>
#include <utility>

#include "engine/base/hash.h"
#include "engine/base/status.h"
#include "engine/base/text/output_file.h"
#include "engine/cuda/cuda_table.h"

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

absl::StatusOr<std::shared_ptr<const CudaCode>> CudaCode::Load(std::shared_ptr<const Api> api, std::string name,
                                                               const std::string& code) {
  CUlibrary handle = nullptr;
  SNUG_CUDA_CALL(*api, cuLibraryLoadData, (&handle, code.data(), nullptr, nullptr, 0, nullptr, nullptr, 0),
                 absl::StrCat("loading the kernel of ", name));
  return std::shared_ptr<const CudaCode>(new CudaCode(std::move(api), std::move(name), handle));
}

CudaCode::~CudaCode() { api_->table().cuLibraryUnload(handle_); }

absl::Status CudaCode::Launch(const CudaStream& stream, const char* entry, const LaunchShape& shape,
                              absl::Span<const uint64_t> argument) const {
  if (shape.blocks == 0) return absl::OkStatus();
  SNUG_RETURN_IF_ERROR(stream.device().MakeCurrent());
  const auto doing = [&] { return absl::StrCat("launching the kernel of ", name_); };
  CUkernel kernel = nullptr;
  SNUG_CUDA_CALL(*api_, cuLibraryGetKernel, (&kernel, handle_, entry), doing());
  void* arguments[] = {const_cast<uint64_t*>(argument.data())};
  // A CUkernel can be passed as a CUfunction, and then means that of the current context.
  SNUG_CUDA_CALL(*api_, cuLaunchKernel,
                 (reinterpret_cast<CUfunction>(kernel), static_cast<unsigned>(shape.blocks),
                  static_cast<unsigned>(shape.blocks_y), static_cast<unsigned>(shape.blocks_z),
                  static_cast<unsigned>(shape.threads), 1, 1, 0, stream.handle(), arguments, nullptr),
                 doing());
  return absl::OkStatus();
}

namespace {

// Returns what stands before the code. It ends with a hash of the code, which a file that was cut off does not match.
std::string HeadOf(absl::string_view key, absl::string_view code) {
  return absl::StrCat("snug kernel 1\n", key, "\n", code.size(), " ", absl::Hex(HashName(code), absl::kZeroPad16),
                      "\n");
}

}  // namespace

std::string CodePath(const std::string& folder, absl::string_view key) {
  return absl::StrCat(folder, "/", absl::Hex(HashName(key), absl::kZeroPad16), ".kernel");
}

bool IsPrivate(const std::string& folder) {
  struct stat found;
  if (stat(folder.c_str(), &found) != 0 || !S_ISDIR(found.st_mode)) return false;
  const bool of_others = found.st_uid != geteuid() && found.st_uid != 0;
  return !of_others && (found.st_mode & (S_IWGRP | S_IWOTH)) == 0;
}

std::optional<std::string> ReadCode(const std::string& folder, absl::string_view key) {
  if (folder.empty() || !IsPrivate(folder)) return std::nullopt;
  const std::string path = CodePath(folder, key);
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) return std::nullopt;
  std::ostringstream read;  // a string stream does not let out what reading throws
  read << std::ifstream(path, std::ios::binary).rdbuf();
  const std::string bytes = read.str();
  absl::string_view rest = bytes;
  if (!absl::ConsumePrefix(&rest, absl::StrCat("snug kernel 1\n", key, "\n"))) return std::nullopt;
  const size_t end = rest.find('\n');
  if (end == absl::string_view::npos) return std::nullopt;
  const absl::string_view code = rest.substr(end + 1);
  if (HeadOf(key, code) != absl::string_view(bytes).substr(0, bytes.size() - code.size())) return std::nullopt;
  return std::string(code);
}

void WriteCode(const std::string& folder, absl::string_view key, absl::string_view code) {
  if (folder.empty()) return;
  std::error_code ignored;
  if (std::filesystem::create_directories(folder, ignored)) {
    std::filesystem::permissions(folder, std::filesystem::perms::owner_all, ignored);
  }
  if (!IsPrivate(folder)) return;
  const auto file = OutputFile::Create(CodePath(folder, key));
  if (!file.ok()) return;
  (*file)->Write(HeadOf(key, code));
  (*file)->Write(code);
  (*file)->Finish().IgnoreError();
}

}  // namespace snug::core::cuda
