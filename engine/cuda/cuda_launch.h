// What an op's CUDA function works with: the stream that its kernels go to, and how to launch one.
//
//   return k.cuda()->Launch(AddKernel<T>, {.blocks = CountBlocks(n, 256), .threads = 256}, n, a, b, y);
//
// An op's CUDA function (KernelRow::run) only asks for work, in sequence, on that stream. It neither waits nor
// allocates, and gives kernels no number that changes from step to step, so it can be captured in a graph. Workspace
// comes from the plan (KernelRow::prepare). A kernel cannot report what it finds wrong in its data, so it writes NaN.
//
// This header includes none of CUDA's: files that launch kernels are compiled by nvcc, and again by g++ for the tests
// (tests/cuda/emulation/emulation.h).
#pragma once

#include <absl/status/status.h>

#include <cstddef>
#include <cstdint>
#include <tuple>
#include <type_traits>

#include "engine/cuda/cuda_stream.h"

namespace snug::core::cuda {

struct LaunchShape {
  int64_t blocks = 1;  // along x; along y and z at most 65535
  int64_t blocks_y = 1;
  int64_t blocks_z = 1;
  int threads = 256;  // threads in a block
};

// Returns how many blocks of `threads` n elements need.
constexpr int64_t CountBlocks(int64_t n, int64_t threads) { return (n + threads - 1) / threads; }

// There is one for each stream. It is as thread-compatible as the stream.
class LaunchContext {
 public:
  explicit LaunchContext(CudaStream& stream) : stream_(stream) {}

  CudaStream& stream() const { return stream_; }
  const CudaDevice& device() const { return stream_.device(); }

  // `kernel` is a __global__ function that takes what the arguments convert to. Without blocks nothing is done.
  template <class... P>
  absl::Status Launch(void (*kernel)(P...), const LaunchShape& shape, std::type_identity_t<P>... arguments) const {
#ifdef SNUG_CUDA_EMULATION
    emulation::Know(kernel);
#endif
    void* addresses[sizeof...(P) + 1] = {const_cast<void*>(static_cast<const void*>(&arguments))...};
    return LaunchKernel(reinterpret_cast<const void*>(kernel), shape, addresses);
  }

  // Sets the bytes to zero.
  absl::Status Clear(void* address, int64_t bytes) const {
    return stream_.Clear(static_cast<std::byte*>(address), bytes);
  }
  // Copies within the device.
  absl::Status Copy(void* to, const void* from, int64_t bytes) const;

 private:
  absl::Status LaunchKernel(const void* kernel, const LaunchShape& shape, void** arguments) const;

  CudaStream& stream_;
};

}  // namespace snug::core::cuda
