// Finds CUDA's libraries and fills the table of their functions, with dlopen and dlsym.
#include <absl/strings/str_cat.h>
#include <dlfcn.h>

#include <utility>

#include "engine/base/status.h"
#include "engine/cuda/cuda_compile.h"
#include "engine/cuda/cuda_table.h"
#include "engine/cuda/open_library.h"

namespace snug::core::cuda {
namespace {

#define SNUG_TEXT(x) #x
#define SNUG_TEXT_OF(x) SNUG_TEXT(x)  // expands x first: cuMemAlloc is cuMemAlloc_v2

struct Wanted {
  Library library;
  const char* stem;
  int number;  // the version of the interface that this build knows
  const char* advice;
};
constexpr Wanted kNvrtcWanted = {Library::kNvrtc, "libnvrtc.so.", CUDART_VERSION / 1000, "fused kernels need it"};
constexpr Wanted kLibraries[] = {
    {Library::kDriver, "libcuda.so.", 1, "it comes with NVIDIA's driver: install that"},
#if SNUG_HAS_CUBLASLT
    {Library::kCublasLt, "libcublasLt.so.", CUBLAS_VER_MAJOR, "our own kernels compute matrix products, more slowly"},
#endif
#if SNUG_HAS_CUDNN
    {Library::kCudnn, "libcudnn.so.", CUDNN_MAJOR, "our own kernels compute convolutions and attention, more slowly"},
#endif
    kNvrtcWanted,
};

// Returns the libraries that this build cannot call.
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

std::string VersionText(int major, int minor, int patch = 0) {
  return absl::StrCat(major, ".", minor, patch > 0 ? absl::StrCat(".", patch) : "");
}

// Returns the newest CUDA that the driver serves.
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

// Returns the files that the library opens by itself while it is used.
std::vector<std::string> OpenedByItself(const Wanted& wanted, const Table& table) {
  switch (wanted.library) {
    case Library::kNvrtc:
      return {absl::StrCat("libnvrtc-builtins.so.", VersionOf(wanted.library, table))};
    case Library::kCudnn:  // the parts that graphs go through; engines come from the last two
      return {absl::StrCat("libcudnn_graph.so.", wanted.number), absl::StrCat("libcudnn_ops.so.", wanted.number),
              absl::StrCat("libcudnn_heuristic.so.", wanted.number),
              absl::StrCat("libcudnn_engines_precompiled.so.", wanted.number),
              absl::StrCat("libcudnn_engines_runtime_compiled.so.", wanted.number)};
    default:
      return {};
  }
}

// Looks up one entry; `missing` keeps the first that the library lacks.
template <class Function>
void LookUp(void* library, const char* symbol, Function* entry, std::string* missing) {
  *entry = reinterpret_cast<Function>(dlsym(library, symbol));
  if (*entry == nullptr && missing->empty()) *missing = symbol;
}

// Looks up all entries of one library, and returns the first that it lacks.
std::string LookUpAll(Library library, void* handle, Table* table) {
  std::string missing;
#define SNUG_CUDA_FUNCTION(of, function) \
  if (Library::of == library) LookUp(handle, SNUG_TEXT_OF(function), &table->function, &missing);
#include "engine/cuda/cuda_functions.inc"
#undef SNUG_CUDA_FUNCTION
  return missing;
}

void FillRuntime(Table* table) {
  table->cudaLaunchKernel = &::cudaLaunchKernel;
  table->cudaGetErrorName = &::cudaGetErrorName;
  table->cudaGetErrorString = &::cudaGetErrorString;
}

// Opens a library, and the files that it opens itself, and fills in its part of the table. The result says what is
// wrong with it.
LibraryState LoadLibrary(const Wanted& wanted, Table* table) {
  LibraryState state{wanted.library, absl::StrCat(wanted.stem, wanted.number), "", ""};
  const absl::StatusOr<OpenedLibrary> opened = OpenLibrary(state.file);
  if (!opened.ok()) {
    state.problem = absl::StrCat(Name(wanted.library), " was not found (", opened.status().message(), "); ",
                                 wanted.advice, ". ", kFoldersVariable, " may name the folder that it is in");
    return state;
  }
  if (const std::string missing = LookUpAll(wanted.library, opened->handle, table); !missing.empty()) {
    state.problem = absl::StrCat(state.file, " has no ", missing, ": it is too old; this build was made for CUDA ",
                                 VersionOf(Library::kRuntime, *table));
    return state;
  }
  for (const std::string& file : OpenedByItself(wanted, *table)) {
    const absl::Status beside = OpenBeside(*opened, file);
    if (beside.ok()) continue;
    state.problem = absl::StrCat(Name(wanted.library), " was found in ", opened->folder, " without ", file,
                                 ", which it needs (", beside.message(), "); ", wanted.advice, ". ", kFoldersVariable,
                                 " may name a folder that has both");
    return state;
  }
  state.version = VersionOf(wanted.library, *table);
  return state;
}

std::vector<LibraryState> LoadTable(Table* table) {
  FillRuntime(table);
  std::vector<LibraryState> states = {{Library::kRuntime, "", VersionOf(Library::kRuntime, *table), ""}};
  for (const Wanted& wanted : kLibraries) states.push_back(LoadLibrary(wanted, table));
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

// This opens no other library, because the large ones take their time.
absl::Status FindCompiler() {
  Table table;
  const LibraryState nvrtc = LoadLibrary(kNvrtcWanted, &table);
  return TryCompiler(Api(table, {nvrtc}));
}

}  // namespace snug::core::cuda
