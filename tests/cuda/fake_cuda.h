// A pretended CUDA: fills the table with functions of its own. Device memory is host memory. Each stream has a queue
// that moves only when somebody waits, in an interleaving that a seed chooses among all that the events allow: what is
// right under many seeds has enough events. Calls are noted in order, any of them can be made to fail, and what was not
// given back is known.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "engine/cuda/cuda_api.h"

struct CUstream_st;

namespace snug::cuda {

// Makes of a launch, its arguments copied, what runs the kernel: cuda::emulation::BindLaunch, where kernels are
// emulated.
using KernelBinder = std::function<void()> (*)(const void* kernel, const unsigned (&grid)[3], unsigned threads,
                                               void** arguments);

// cuBLASLt and cuDNN. Unfused: cuDNN adds no bias; others: cuBLASLt runs none of what its heuristics list first; newer:
// cuBLASLt's descriptions have no room in those of this build; refuse: there, but they serve nothing.
enum class FakeLibraries : uint8_t { kServe, kServeUnfused, kServeOthers, kNewer, kRefuse, kMissing };

// The same of a kernel that was compiled from source at run time: cuda::emulation::BindSource.
using SourceBinder = std::function<void()> (*)(const std::string& source, const std::string& entry,
                                               const unsigned (&grid)[3], unsigned threads, void** arguments);

struct FakeOptions {
  int devices = 1;
  int64_t device_bytes = int64_t{1} << 28;
  int major = 9, minor = 0;
  uint64_t seed = 1;
  bool any_address = false;        // the host's memory passes for the device's
  KernelBinder kernels = nullptr;  // null: a launch does nothing
  SourceBinder sources = nullptr;  // null: nor does one of code that was made from source
  FakeLibraries libraries = FakeLibraries::kServe;
  std::vector<int> compiles_for = {75, 80, 86, 89, 90, 100, 120};  // NVRTC
};

// One at a time: the table's functions have no other way to it. Thread-compatible.
class FakeCuda {
 public:
  explicit FakeCuda(const FakeOptions& options = {});
  ~FakeCuda();
  FakeCuda(const FakeCuda&) = delete;
  FakeCuda& operator=(const FakeCuda&) = delete;

  // Its table.
  std::shared_ptr<const Api> api() const;

  // Work of a test's own for a stream, as if it were a kernel of that name.
  absl::Status Run(CUstream_st* stream, const std::string& name, std::function<void()> work);

  // Calls by name ("cuMemAlloc"; a launch by its kernel's name), since the last ClearCalls.
  const std::vector<std::string>& calls() const;
  int64_t Count(const std::string& name) const;
  // Of the libraries' products and convolutions among them, by number.
  const std::vector<int>& algorithms() const;
  void ClearCalls();

  // The n-th call from now (0: the next) fails; nothing is done, except that what gives something back does so. Below
  // 0: none.
  void FailCall(int64_t n, const std::string& only = "");
  bool has_failed() const;  // since FailCall

  // "2 events, 1 block": what was taken and not given back. Empty: nothing.
  std::string Leaks() const;
  int64_t used_bytes() const;  // of the device's memory
  // Whether an address lies in the device's memory.
  bool OnDevice(const void* address) const;

  struct State;

 private:
  std::unique_ptr<State> state_;
};

}  // namespace snug::cuda
