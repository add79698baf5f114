// A pretended CUDA, which fills the table with functions of its own. Device memory is host memory. Each stream has a
// queue that moves only when somebody waits. A seed chooses the interleaving among all that the events allow, so what
// is right under many seeds has enough events. Calls are noted in order, any of them can be made to fail, and what was
// not given back is known.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "engine/cuda/cuda_api.h"

struct CUstream_st;

namespace snug::core::cuda {

// Turns a launch into what runs the kernel on a copy of the arguments. Where kernels are emulated it is
// cuda::emulation::BindLaunch.
using KernelBinder = std::function<void()> (*)(const void* kernel, const unsigned (&grid)[3], unsigned threads,
                                               void** arguments);

// How cuBLASLt and cuDNN behave. Unfused: cuDNN adds no bias, cuBLASLt no more than a bias and relu. Others: the
// libraries run none of what their heuristics list first. Newer: cuBLASLt's descriptions are too large for the room in
// this build. Refuse: they are there, but serve nothing.
enum class FakeLibraries : uint8_t { kServe, kServeUnfused, kServeOthers, kNewer, kRefuse, kMissing };

// Does the same for a kernel that was compiled from source at run time. It is cuda::emulation::BindSource.
using SourceBinder = std::function<void()> (*)(const std::string& source, const std::string& entry,
                                               const unsigned (&grid)[3], unsigned threads, void** arguments);

struct FakeOptions {
  int devices = 1;
  int64_t device_bytes = int64_t{1} << 28;
  int major = 9, minor = 0;
  uint64_t seed = 1;
  bool any_address = false;        // the host's memory passes for the device's
  KernelBinder kernels = nullptr;  // null: a launch does nothing
  SourceBinder sources = nullptr;  // null: a launch of code that was made from source does nothing
  FakeLibraries libraries = FakeLibraries::kServe;
  std::vector<int> compiles_for = {75, 80, 86, 89, 90, 100, 120};  // what NVRTC compiles for
};

// There may be one at a time, because the table's functions cannot tell several apart. Thread-compatible.
class FakeCuda {
 public:
  explicit FakeCuda(const FakeOptions& options = {});
  ~FakeCuda();
  FakeCuda(const FakeCuda&) = delete;
  FakeCuda& operator=(const FakeCuda&) = delete;

  // Returns the Api with its table.
  std::shared_ptr<const Api> api() const;

  // Gives a stream work of a test's own, as if it were a kernel of that name.
  absl::Status Run(CUstream_st* stream, const std::string& name, std::function<void()> work);

  // Returns the calls since the last ClearCalls, by name ("cuMemAlloc"; a launch by its kernel's name).
  const std::vector<std::string>& calls() const;
  int64_t Count(const std::string& name) const;
  // Returns the numbers of the algorithms that the libraries' products and convolutions among them took.
  const std::vector<int>& algorithms() const;
  void ClearCalls();

  // Makes the n-th call from now fail (0: the next; below 0: none). It does nothing then, but what gives something back
  // does give it back.
  void FailCall(int64_t n, const std::string& only = "");
  bool has_failed() const;  // whether a call did, since FailCall

  // Returns what was taken and not given back, such as "2 events, 1 block"; empty: nothing.
  std::string Leaks() const;
  int64_t used_bytes() const;  // bytes of the device's memory
  // Says whether an address lies in the device's memory.
  bool OnDevice(const void* address) const;

  struct State;

 private:
  std::unique_ptr<State> state_;
};

}  // namespace snug::core::cuda
