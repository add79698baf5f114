#include "engine/cuda/cuda_api.h"

#include <absl/strings/str_cat.h>

#include <array>
#include <utility>

#include "engine/cuda/cuda_libraries.h"
#include "engine/cuda/cuda_table.h"

namespace snug::core::cuda {
namespace {

struct Meaning {
  absl::StatusCode code = absl::StatusCode::kInternal;
  absl::string_view advice;
};

constexpr absl::string_view kMemoryAdvice =
    "a smaller --batch needs less, `snug memcost` says what each --memory strategy takes, and nvidia-smi what other "
    "programs hold";
constexpr absl::string_view kStrayAdvice =
    "a kernel strayed or trapped: --engine=serial names the op, compute-sanitizer the address. The device is lost to "
    "this "
    "process";
constexpr absl::string_view kWithoutAdvice = "--plain-kernels does without CUDA's libraries";

Meaning MeaningOf(CUresult code) {
  switch (code) {
    case CUDA_ERROR_OUT_OF_MEMORY:
      return {absl::StatusCode::kResourceExhausted, kMemoryAdvice};
    case CUDA_ERROR_NO_DEVICE:
      return {absl::StatusCode::kFailedPrecondition,
              "nvidia-smi lists the devices of this machine, CUDA_VISIBLE_DEVICES may hide them"};
    case CUDA_ERROR_INVALID_DEVICE:
      return {absl::StatusCode::kNotFound, "`snug doctor` lists the devices there are"};
    case CUDA_ERROR_SYSTEM_DRIVER_MISMATCH:
    case CUDA_ERROR_SYSTEM_NOT_READY:
    case CUDA_ERROR_STUB_LIBRARY:
    case CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE:
      return {absl::StatusCode::kFailedPrecondition,
              "the driver is not in order: reinstall it, or restart the machine after an update"};
    case CUDA_ERROR_DEVICE_UNAVAILABLE:
      return {absl::StatusCode::kFailedPrecondition, "another process has the device for itself"};
    case CUDA_ERROR_NO_BINARY_FOR_GPU:
    case CUDA_ERROR_UNSUPPORTED_PTX_VERSION:
      return {absl::StatusCode::kFailedPrecondition,
              "this build has no code for this device: build with its number in SNUG_CUDA_ARCHITECTURES"};
    case CUDA_ERROR_ILLEGAL_ADDRESS:
    case CUDA_ERROR_MISALIGNED_ADDRESS:
    case CUDA_ERROR_LAUNCH_FAILED:
    case CUDA_ERROR_ASSERT:
      return {absl::StatusCode::kInternal, kStrayAdvice};
    default:
      return {};
  }
}

Meaning MeaningOf(cudaError_t code) {
  switch (code) {
    case cudaErrorMemoryAllocation:
      return MeaningOf(CUDA_ERROR_OUT_OF_MEMORY);
    case cudaErrorInsufficientDriver:
      return {absl::StatusCode::kFailedPrecondition, "the driver is older than this build's CUDA: update it"};
    case cudaErrorNoKernelImageForDevice:
      return MeaningOf(CUDA_ERROR_NO_BINARY_FOR_GPU);
    case cudaErrorIllegalAddress:
    case cudaErrorLaunchFailure:
      return MeaningOf(CUDA_ERROR_ILLEGAL_ADDRESS);
    default:
      return {};
  }
}

#if SNUG_HAS_CUBLASLT
Meaning MeaningOf(cublasStatus_t code) {
  switch (code) {
    case CUBLAS_STATUS_ALLOC_FAILED:
      return {absl::StatusCode::kResourceExhausted, kMemoryAdvice};
    case CUBLAS_STATUS_ARCH_MISMATCH:
    case CUBLAS_STATUS_NOT_INITIALIZED:
      return {absl::StatusCode::kFailedPrecondition,
              "cuBLAS does not serve this device or driver; --plain-kernels does without CUDA's libraries"};
    case CUBLAS_STATUS_NOT_SUPPORTED:
      return {absl::StatusCode::kUnimplemented, "cuBLASLt has no kernel for these shapes and types"};
    case CUBLAS_STATUS_INVALID_VALUE:
      return {absl::StatusCode::kInvalidArgument, kWithoutAdvice};
    default:
      return {absl::StatusCode::kInternal, kWithoutAdvice};
  }
}
#endif

#if SNUG_HAS_CUDNN
Meaning MeaningOf(cudnnStatus_t code) {
  if (code == CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED ||
      code == CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED) {
    return {absl::StatusCode::kResourceExhausted, kMemoryAdvice};
  }
  if (CUDNN_STATUS_CATEGORY(code) == CUDNN_STATUS_NOT_SUPPORTED) {  // a dozen reasons have a code each
    return {absl::StatusCode::kUnimplemented, "cuDNN has no kernel for these shapes and types"};
  }
  if (CUDNN_STATUS_CATEGORY(code) == CUDNN_STATUS_BAD_PARAM) {
    return {absl::StatusCode::kInternal,
            "Snug has described this wrongly to cuDNN, which is a fault of Snug's; --plain-kernels does without CUDA's "
            "libraries"};
  }
  return {absl::StatusCode::kInternal, kWithoutAdvice};
}
#endif

struct Described {
  std::string name, text;
  Meaning meaning;
};

std::string OrNumber(const char* text, int code) { return text != nullptr ? text : absl::StrCat("error ", code); }

Described Describe(const Table& table, Library library, int code) {
  switch (library) {
    case Library::kDriver: {
      const auto result = static_cast<CUresult>(code);
      const char* name = nullptr;
      const char* text = nullptr;
      table.cuGetErrorName(result, &name);
      table.cuGetErrorString(result, &text);
      return {OrNumber(name, code), OrNumber(text, code), MeaningOf(result)};
    }
    case Library::kRuntime: {
      const auto result = static_cast<cudaError_t>(code);
      return {table.cudaGetErrorName(result), table.cudaGetErrorString(result), MeaningOf(result)};
    }
    case Library::kNvrtc: {
      const auto result = static_cast<nvrtcResult>(code);
      return {absl::StrCat("status ", code), table.nvrtcGetErrorString(result), {}};
    }
#if SNUG_HAS_CUBLASLT
    case Library::kCublasLt: {
      const auto result = static_cast<cublasStatus_t>(code);
      return {table.cublasLtGetStatusName(result), table.cublasLtGetStatusString(result), MeaningOf(result)};
    }
#endif
#if SNUG_HAS_CUDNN
    case Library::kCudnn: {
      const auto result = static_cast<cudnnStatus_t>(code);
      std::array<char, 512> last = {};  // the library's own words
      table.cudnnGetLastErrorString(last.data(), last.size());
      last.back() = 0;
      return {absl::StrCat("status ", code),
              absl::StrCat(table.cudnnGetErrorString(result), last[0] != 0 ? ": " : "", last.data()),
              MeaningOf(result)};
    }
#endif
    default:
      break;
  }
  return {};
}

}  // namespace

absl::string_view Name(Library library) {
  switch (library) {
    case Library::kDriver:
      return "the CUDA driver";
    case Library::kRuntime:
      return "the CUDA runtime";
    case Library::kCublasLt:
      return "cuBLASLt";
    case Library::kCudnn:
      return "cuDNN";
    case Library::kNvrtc:
      return "NVRTC";
  }
  return "";
}

Api::Api(const Table& table, std::vector<LibraryState> libraries) : libraries_(std::move(libraries)) {
  auto own = std::make_unique<Table>(table);
  own->libraries = std::make_shared<LibrariesOfStreams>();
  table_ = std::move(own);
}

Api::~Api() = default;

absl::Status Api::Require(Library library) const {
  for (const LibraryState& state : libraries_) {
    if (state.library != library) continue;
    return state.problem.empty() ? absl::OkStatus() : absl::FailedPreconditionError(state.problem);
  }
  return absl::FailedPreconditionError(absl::StrCat(Name(library), " is not there"));
}

absl::Status Api::Error(Library library, absl::string_view function, int code, absl::string_view doing) const {
  const Described error = Describe(*table_, library, code);
  return absl::Status(error.meaning.code,
                      absl::StrCat(doing, ": ", function, " failed: ", error.name, " (", error.text, ")",
                                   error.meaning.advice.empty() ? "" : "; ", error.meaning.advice));
}

}  // namespace snug::core::cuda
