// CUDA kernels on the processor, to test them without a GPU: g++ compiles the .cu files with this header before
// everything else. A kernel is then a plain function, and a launch calls it once for each thread of each block, one
// block after the other.
//
// If the kernel has a barrier, or threads of a warp do something together (warp.h), the threads of a block are fibers.
// They run in turn, forwards up to where one waits and backwards up to the next such place, in another block or launch
// the other way round, so that a missing barrier shows. Otherwise they are a loop. Copies that a thread asks for
// (cp.async, ops/kit/cuda/tensor_core.h) are done as late as may be, when it waits for them; until then there is
// garbage, so that what reads too soon, or what is still needed there, shows. Atomics and dynamic shared memory are not
// emulated.
#pragma once

#include <cstddef>
#include <functional>
#include <utility>

#define SNUG_CUDA_EMULATION 1
// NOLINTBEGIN(bugprone-reserved-identifier, readability-identifier-naming): CUDA's names
#define __global__
#define __device__
#define __host__
#define __shared__ static  // one block runs at a time
#define __launch_bounds__(...)
#define __grid_constant__
// NOLINTEND(bugprone-reserved-identifier, readability-identifier-naming)

namespace snug::core::cuda::emulation {

inline constexpr size_t kArgumentAlignment = 16;

struct Index {
  unsigned x = 0, y = 0, z = 0;
};

// Runs one thread of a launch, whose indices have been set, with a copy of what was passed; or runs the whole launch.
using Call = std::function<void()>;

// What a kernel takes. A launch copies it byte by byte, as CUDA does.
struct Parameters {
  const size_t* sizes;
  size_t count;
  void (*call)(const void* kernel, const void* const* arguments);
};
void Know(const void* kernel, const Parameters& parameters);
// Returns what calls `thread` for each thread of the grid.
Call RunGrid(Call thread, const unsigned (&grid)[3], unsigned threads);
// Returns what runs the whole grid. The arguments are copied now.
Call BindLaunch(const void* kernel, const unsigned (&grid)[3], unsigned threads, void** arguments);

// Makes a thread wait for all of its block.
void Barrier();

// Promises to copy `read` bytes, and zeros up to `bytes`. The copies of a thread since the last call of CommitCopies
// are a group; WaitForCopies does those of all groups but the newest `left`.
void CopyLater(void* to, const void* from, int bytes, int read);
void CommitCopies();
void WaitForCopies(int left);

// There are hundreds of kernels, so what is instantiated for each is little.
template <class... P, size_t... I>
void CallWith(const void* kernel, const void* const* arguments, std::index_sequence<I...>) {
  reinterpret_cast<void (*)(P...)>(const_cast<void*>(kernel))(*static_cast<const P*>(arguments[I])...);
}

// Tells BindLaunch the kernel's parameters.
template <class... P>
void Know(void (*kernel)(P...)) {
  static_assert(((alignof(P) <= kArgumentAlignment) && ...));
  static constexpr size_t kSizes[] = {sizeof(P)..., 0};
  Know(reinterpret_cast<const void*>(kernel),
       {kSizes, sizeof...(P), [](const void* known, const void* const* arguments) {
          CallWith<P...>(known, arguments, std::index_sequence_for<P...>());
        }});
}

}  // namespace snug::core::cuda::emulation

inline snug::core::cuda::emulation::Index threadIdx, blockIdx, blockDim, gridDim;  // NOLINT: CUDA's names
inline void __syncthreads() { snug::core::cuda::emulation::Barrier(); }            // NOLINT

#include "tests/cuda/emulation/tensor_core.h"
#include "tests/cuda/emulation/warp.h"
