// The pretended NVRTC, and the loading of code, which here is the source itself.
#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>

#include "tests/cuda/fake_cuda_table.h"

namespace snug::core::cuda {
namespace {

constexpr char kCodeBegins[] = "pretended code\n";

}  // namespace

SNUG_FAKE(nvrtcVersion, int* major, int* minor) {
  *major = 13;
  *minor = 0;
  return NVRTC_SUCCESS;
}
SNUG_FAKE(nvrtcGetNumSupportedArchs, int* count) {
  *count = static_cast<int>(s.options.compiles_for.size());
  return NVRTC_SUCCESS;
}
SNUG_FAKE(nvrtcGetSupportedArchs, int* numbers) {
  std::copy(s.options.compiles_for.begin(), s.options.compiles_for.end(), numbers);
  return NVRTC_SUCCESS;
}
SNUG_FAKE(nvrtcGetErrorString, nvrtcResult)->const char* { return "the library failed"; }

SNUG_FAKE(nvrtcCreateProgram, nvrtcProgram* program, const char* text, const char*, int, const char* const*,
          const char* const*) {
  auto made = std::make_unique<fake::Source>(fake::Source{kCodeBegins + std::string(text)});
  *program = reinterpret_cast<nvrtcProgram>(made.get());
  s.programs[*program] = std::move(made);
  return NVRTC_SUCCESS;
}
SNUG_FAKE(nvrtcCompileProgram, nvrtcProgram program, int, const char* const*) {
  const bool bad = s.programs.at(program)->text.find("#error") != std::string::npos;
  return bad ? NVRTC_ERROR_COMPILATION : NVRTC_SUCCESS;
}
SNUG_FAKE(nvrtcGetProgramLogSize, nvrtcProgram, size_t* bytes) {
  *bytes = sizeof("line 1: no good");
  return NVRTC_SUCCESS;
}
SNUG_FAKE(nvrtcGetProgramLog, nvrtcProgram, char* log) {
  std::strcpy(log, "line 1: no good");
  return NVRTC_SUCCESS;
}
SNUG_FAKE(nvrtcGetCUBINSize, nvrtcProgram program, size_t* bytes) {
  *bytes = s.programs.at(program)->text.size() + 1;
  return NVRTC_SUCCESS;
}
SNUG_FAKE(nvrtcGetCUBIN, nvrtcProgram program, char* code) {
  std::strcpy(code, s.programs.at(program)->text.c_str());
  return NVRTC_SUCCESS;
}
SNUG_FAKE(nvrtcGetPTXSize, nvrtcProgram program, size_t* bytes) {
  *bytes = s.programs.at(program)->text.size() + 1;
  return NVRTC_SUCCESS;
}
SNUG_FAKE(nvrtcGetPTX, nvrtcProgram program, char* text) {
  std::strcpy(text, s.programs.at(program)->text.c_str());
  return NVRTC_SUCCESS;
}
SNUG_FAKE(nvrtcDestroyProgram, nvrtcProgram* program) {
  SNUG_CHECK_MSG(s.programs.erase(*program) == 1, "nvrtcDestroyProgram: not a program");
  return NVRTC_SUCCESS;
}

SNUG_FAKE(cuLibraryLoadData, CUlibrary* library, const void* code, CUjit_option*, void**, unsigned, CUlibraryOption*,
          void**, unsigned) {
  if (s.Forbidden()) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  const std::string text = static_cast<const char*>(code);
  if (text.rfind(kCodeBegins, 0) != 0) return CUDA_ERROR_INVALID_IMAGE;
  auto made = std::make_unique<fake::LoadedCode>(fake::LoadedCode{text.substr(sizeof(kCodeBegins) - 1), {}});
  *library = reinterpret_cast<CUlibrary>(made.get());
  s.libraries[*library] = std::move(made);
  return CUDA_SUCCESS;
}
SNUG_FAKE(cuLibraryUnload, CUlibrary library) {
  s.RunAll();
  SNUG_CHECK_MSG(s.libraries.erase(library) == 1, "cuLibraryUnload: not a library");
  return CUDA_SUCCESS;
}
SNUG_FAKE(cuLibraryGetKernel, CUkernel* kernel, CUlibrary library, const char* name) {
  fake::LoadedCode& code = *s.libraries.at(library);
  if (code.text.find(std::string(" ") + name + "(") == std::string::npos) return CUDA_ERROR_NOT_FOUND;
  auto& made = code.kernels[name];
  if (made == nullptr) made = std::make_unique<fake::LoadedCode::Kernel>(fake::LoadedCode::Kernel{&code, name});
  *kernel = reinterpret_cast<CUkernel>(made.get());
  return CUDA_SUCCESS;
}
SNUG_FAKE(cuLaunchKernel, CUfunction function, unsigned x, unsigned y, unsigned z, unsigned threads, unsigned, unsigned,
          unsigned, CUstream stream, void** arguments, void**) {
  s.At(stream);
  if (s.options.sources == nullptr) return CUDA_SUCCESS;
  const auto& kernel = *reinterpret_cast<const fake::LoadedCode::Kernel*>(function);
  s.Push(stream, s.options.sources(kernel.code->text, kernel.name, {x, y, z}, threads, arguments));
  return CUDA_SUCCESS;
}

void fake::FillCompiler(Table* table) {
  struct File {};
  FillEntries<File>(table);
}

}  // namespace snug::core::cuda
