// Fills the table with dlopen and dlsym.
#include <absl/strings/str_cat.h>
#include <absl/strings/str_split.h>
#include <dlfcn.h>

#include <cstdlib>
#include <map>
#include <utility>

#include "engine/base/status.h"
#include "engine/cuda/cuda_compile.h"
#include "engine/cuda/cuda_table.h"

namespace snug::cuda {
namespace {

#define SNUG_TEXT(x) #x
#define SNUG_TEXT_OF(x) SNUG_TEXT(x)  // of what a macro stands for: cuMemAlloc is cuMemAlloc_v2

constexpr struct {
  Library library;
  const char* stem;
  int number;  // of the interface that this build knows
  const char* advice;
} kLibraries[] = {
    {Library::kDriver, "libcuda.so.", 1, "it comes with NVIDIA's driver: install that"},
#if SNUG_HAS_CUBLASLT
    {Library::kCublasLt, "libcublasLt.so.", CUBLAS_VER_MAJOR, "our own kernels compute matrix products, more slowly"},
#endif
#if SNUG_HAS_CUDNN
    {Library::kCudnn, "libcudnn.so.", CUDNN_MAJOR, "our own kernels compute convolutions, more slowly"},
#endif
    {Library::kNvrtc, "libnvrtc.so.", CUDART_VERSION / 1000, "fused kernels need it"},
};
// What this build cannot call.
std::vector<LibraryState> LeftOut() {
  std::vector<LibraryState> states;
  if (!SNUG_HAS_CUBLASLT) {
    states.push_back({Library::kCublasLt, "", "", "this build has no cuBLASLt, as there was no cublasLt.h"});
  }
  if (!SNUG_HAS_CUDNN) {
    states.push_back({Library::kCudnn, "", "", "this build has no cuDNN, as there was no cudnn.h"});
  }
  return states;
}

constexpr char kFoldersVariable[] = "SNUG_CUDA_LIBRARIES";

void* OpenLibrary(const std::string& file, std::string* problem) {
  std::vector<std::string> names;
  if (const char* folders = std::getenv(kFoldersVariable); folders != nullptr) {
    for (const absl::string_view folder : absl::StrSplit(folders, ':', absl::SkipEmpty())) {
      names.push_back(absl::StrCat(folder, "/", file));
    }
  }
  names.push_back(file);
  for (const std::string& name : names) {
    if (void* handle = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL); handle != nullptr) return handle;
  }
  *problem = dlerror();
  return nullptr;
}

std::string VersionText(int major, int minor, int patch = 0) {
  return absl::StrCat(major, ".", minor, patch > 0 ? absl::StrCat(".", patch) : "");
}

// Of the driver: the newest CUDA that it serves.
std::string DriverVersion(const Table& table) {
  int version = 0;
  if (table.cuDriverGetVersion(&version) != CUDA_SUCCESS) return "";
  return VersionText(version / 1000, version % 1000 / 10);
}

std::string VersionOf(Library library, const Table& table) {
  switch (library) {
    case Library::kDriver:
      return DriverVersion(table);
    case Library::kRuntime:
      return VersionText(CUDART_VERSION / 1000, CUDART_VERSION % 1000 / 10);
    case Library::kNvrtc: {
      int major = 0;
      int minor = 0;
      return table.nvrtcVersion(&major, &minor) == NVRTC_SUCCESS ? VersionText(major, minor) : "";
    }
#if SNUG_HAS_CUBLASLT
    case Library::kCublasLt: {
      const auto version = static_cast<int>(table.cublasLtGetVersion());
      return VersionText(version / 10000, version % 10000 / 100, version % 100);
    }
#endif
#if SNUG_HAS_CUDNN
    case Library::kCudnn: {
      const auto version = static_cast<int>(table.cudnnGetVersion());
      return VersionText(version / 10000, version % 10000 / 100, version % 100);
    }
#endif
    default:
      break;
  }
  return "";
}

// Looks up one entry; the first that a library lacks is what is wrong with it.
template <class Function>
void LookUp(const std::map<Library, void*>& handles, Library library, const char* symbol, Function* entry,
            std::map<Library, std::string>* missing) {
  const auto found = handles.find(library);
  if (found == handles.end()) return;
  *entry = reinterpret_cast<Function>(dlsym(found->second, symbol));
  if (*entry == nullptr) missing->emplace(library, symbol);
}

void FillRuntime(Table* table) {
  table->cudaLaunchKernel = &::cudaLaunchKernel;
  table->cudaGetErrorName = &::cudaGetErrorName;
  table->cudaGetErrorString = &::cudaGetErrorString;
}

std::string NotFound(Library library, absl::string_view problem, absl::string_view advice) {
  return absl::StrCat(Name(library), " was not found (", problem, "); ", advice, ". ", kFoldersVariable,
                      " may name the folder that it is in");
}

std::vector<LibraryState> LoadTable(Table* table) {
  std::vector<LibraryState> states = {{Library::kRuntime, "", VersionOf(Library::kRuntime, *table), ""}};
  std::map<Library, void*> handles;
  for (const auto& [library, stem, number, advice] : kLibraries) {
    const std::string file = absl::StrCat(stem, number);
    LibraryState& state = states.emplace_back(LibraryState{library, file, "", ""});
    std::string problem;
    if (void* handle = OpenLibrary(file, &problem); handle != nullptr) {
      handles[library] = handle;
    } else {
      state.problem = NotFound(library, problem, advice);
    }
  }
  std::map<Library, std::string> missing;
  FillRuntime(table);
#define SNUG_CUDA_FUNCTION(library, function)                                              \
  if constexpr (Library::library != Library::kRuntime) {                                   \
    LookUp(handles, Library::library, SNUG_TEXT_OF(function), &table->function, &missing); \
  }
#include "engine/cuda/cuda_functions.inc"
#undef SNUG_CUDA_FUNCTION
  for (LibraryState& state : states) {
    if (!state.problem.empty()) continue;
    if (const auto lacks = missing.find(state.library); lacks != missing.end()) {
      state.problem =
          absl::StrCat(state.file, " has no ", lacks->second, ": it is too old; this build was made for CUDA ",
                       VersionOf(Library::kRuntime, *table));
    } else {
      state.version = VersionOf(state.library, *table);
    }
  }
  for (LibraryState& state : LeftOut()) states.push_back(std::move(state));
  return states;
}

}  // namespace

absl::StatusOr<std::shared_ptr<const Api>> Api::Load() {
  Table table;
  std::vector<LibraryState> states = LoadTable(&table);
  auto api = std::make_shared<const Api>(table, std::move(states));
  SNUG_RETURN_IF_ERROR(api->Require(Library::kDriver));
  SNUG_CUDA_CALL(*api, cuInit, (0), "starting CUDA");
  return api;
}

std::vector<LibraryState> FindLibraries() {
  Table table;
  return LoadTable(&table);
}

// Opens no other library: the large ones take their time.
absl::Status FindCompiler() {
  for (const auto& [library, stem, number, advice] : kLibraries) {
    if (library != Library::kNvrtc) continue;
    std::string problem;
    if (OpenLibrary(absl::StrCat(stem, number), &problem) != nullptr) return absl::OkStatus();
    return absl::FailedPreconditionError(NotFound(library, problem, advice));
  }
  return absl::InternalError("NVRTC is not among the libraries");
}

}  // namespace snug::cuda
