// Pretends functions of CUDA's libraries. A file writes some, in snug::core::cuda,
//
//   SNUG_FAKE(cuDeviceGetCount, int* count) {
//     *count = s.options.devices;
//     return CUDA_SUCCESS;
//   }
//
// with the pretended CUDA as `s`, and puts them into a table with FillEntries. Each call is noted, and may be the one
// that has to fail.
#pragma once

#include <string>
#include <type_traits>

#include "engine/cuda/cuda_table.h"
#include "tests/cuda/fake_cuda_state.h"

namespace snug::core::cuda {

using State = FakeCuda::State;

namespace fake {

State& CurrentState();  // a global, because the table's functions take no argument of ours

// Says whether a function gives something back. It does so even when it reports a failure, which then is of earlier
// work.
bool GivesBack(const std::string& name);

inline CUresult FailureOf(CUresult) { return CUDA_ERROR_UNKNOWN; }
inline cudaError_t FailureOf(cudaError_t) { return cudaErrorUnknown; }
inline cublasStatus_t FailureOf(cublasStatus_t) { return CUBLAS_STATUS_INTERNAL_ERROR; }
inline cudnnStatus_t FailureOf(cudnnStatus_t) { return CUDNN_STATUS_INTERNAL_ERROR; }
inline nvrtcResult FailureOf(nvrtcResult) { return NVRTC_ERROR_INTERNAL_ERROR; }

template <auto entry>
constexpr const char* kName = nullptr;
#define SNUG_CUDA_FUNCTION(library, function) \
  template <>                                 \
  constexpr const char* kName<&Table::function> = #function;
#include "engine/cuda/cuda_functions.inc"
#undef SNUG_CUDA_FUNCTION

// There is one for each file of such functions.
void FillDriver(Table* table);
void FillLibraries(Table* table);
void FillCompiler(Table* table);

}  // namespace fake

// The pretended functions are overloads of Fake, told apart by their entry.
template <auto entry>
struct Entry {};
#define SNUG_FAKE(function, ...) \
  static auto Fake(Entry<&Table::function>, [[maybe_unused]] State& s __VA_OPT__(, ) __VA_ARGS__)

// `File` is a type of the file's own, so that each file has its own instances and sees no other's functions.
template <class File, auto entry, class Function>
struct Trampoline;
template <class File, auto entry, class R, class... A>
struct Trampoline<File, entry, R (*)(A...)> {
  static constexpr bool kServes = requires(State & s, A... arguments) { Fake(Entry<entry>(), s, arguments...); };

  static R Call(A... arguments) {
    State& s = fake::CurrentState();
    if constexpr (std::is_enum_v<R>) {
      const std::string name = fake::kName<entry>;
      if (name.rfind("cuGetError", 0) != 0 && s.Fails(name)) {  // describing an error does not count as a call
        if (fake::GivesBack(name)) Fake(Entry<entry>(), s, arguments...);
        return fake::FailureOf(R());
      }
    }
    return Fake(Entry<entry>(), s, arguments...);
  }
};

template <class File>
void FillEntries(Table* table) {
#define SNUG_CUDA_FUNCTION(library, function)                                               \
  if constexpr (Trampoline<File, &Table::function, decltype(Table::function)>::kServes) {   \
    table->function = &Trampoline<File, &Table::function, decltype(Table::function)>::Call; \
  }
#include "engine/cuda/cuda_functions.inc"
#undef SNUG_CUDA_FUNCTION
}

}  // namespace snug::core::cuda
