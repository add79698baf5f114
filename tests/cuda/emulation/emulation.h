// CUDA kernels on the processor, to test them without a GPU: g++ compiles the .cu files with this header before
// everything else. A kernel is then a plain function, and a launch calls it once for each thread of each block, one
// block after the other.
//
// If the kernel has a barrier, the threads of a block are fibers. They run in turn, forwards up to one barrier and
// backwards up to the next, so that a missing barrier shows. Otherwise they are a loop. Warps, atomics and dynamic
// shared memory are not emulated.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <tuple>
#include <type_traits>
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

struct Index {
  unsigned x = 0, y = 0, z = 0;
};

// Runs one thread of a launch, whose indices have been set, with a copy of what was passed; or runs the whole launch.
using Call = std::function<void()>;
using Binder = Call (*)(const void* kernel, void** arguments);

void Know(const void* kernel, Binder binder);
// Returns what calls `thread` for each thread of the grid.
Call RunGrid(Call thread, const unsigned (&grid)[3], unsigned threads);
// Returns what runs the whole grid. The arguments are copied now.
Call BindLaunch(const void* kernel, const unsigned (&grid)[3], unsigned threads, void** arguments);

// Makes a thread wait for all of its block.
void Barrier();

// Tells BindLaunch the kernel's parameters.
template <class... P>
void Know(void (*kernel)(P...)) {
  Know(reinterpret_cast<const void*>(kernel), [](const void* bound, void** arguments) -> Call {
    const auto copy = [&]<size_t... I>(std::index_sequence<I...>) {
      return std::make_shared<const std::tuple<P...>>(*static_cast<const P*>(arguments[I])...);
    }
    (std::index_sequence_for<P...>());
    const auto function = reinterpret_cast<void (*)(P...)>(const_cast<void*>(bound));
    return [function, copy] { std::apply(function, *copy); };
  });
}

}  // namespace snug::core::cuda::emulation

inline snug::core::cuda::emulation::Index threadIdx, blockIdx, blockDim, gridDim;  // NOLINT: CUDA's names
inline void __syncthreads() { snug::core::cuda::emulation::Barrier(); }            // NOLINT
