// What a session runs on: it decides where arenas lie, how the host gets at Variables, and what runs the Steps.
#pragma once

#include <absl/status/statusor.h>

#include <cstddef>
#include <cstdint>
#include <memory>

#include "engine/run/executors/bound_steps.h"
#include "engine/run/executors/executor.h"
#include "memory/allocator/places.h"

struct CUstream_st;

namespace snug::core {

namespace cuda {
class CudaDevice;
}

// What the host does with the bytes of Variables: it reads them, writes all of them, or may do either.
enum class HostAccess : uint8_t { kRead, kWrite, kReadWrite };

class Backend {
 public:
  virtual ~Backend() = default;

  // The addresses are those that kernels use.
  virtual ArenaBytes arenas() const = 0;
  // These are the bytes taken from the device's memory.
  virtual int64_t state_bytes() const = 0;
  virtual int64_t step_bytes() const = 0;
  virtual int64_t upload_bytes() const { return 0; }  // for inputs that wait for their step

  // Returns bytes of the state arena where the host can use them. They are valid until the next run.
  virtual absl::StatusOr<std::byte*> OnHost(int64_t offset, int64_t bytes, HostAccess access) = 0;

  // The Executable, `poison`, and what `arenas` points to must outlive the result.
  virtual absl::StatusOr<std::unique_ptr<Executor>> MakeExecutor(ExecutorKind kind, const Executable& executable,
                                                                 const ArenaBytes& arenas, Poison* poison) = 0;
  // Returns how much of its memory is left for arenas; < 0: unknown.
  virtual int64_t FreeBytes() const = 0;
  // Returns the place from which dynamic memory is taken, and tells `places` about it.
  virtual absl::StatusOr<memory::Place> DynamicPlace(memory::Places* places) = 0;

  // Couples runs to a stream of the caller's. From now on a run comes, on the device, after all that was given to the
  // stream before, and before all that is given to it afterwards. Fails with FailedPrecondition where there are no such
  // streams.
  virtual absl::Status Follow(CUstream_st* stream);

  // These are called before and after each run.
  virtual absl::Status BeforeRun() { return absl::OkStatus(); }
  virtual void AfterRun() {}
};

struct BackendOptions {
  Device device;
  int64_t state_bytes = 0, step_bytes = 0;
  int64_t upload_bytes = 0;                             // dropped where they do not fit
  bool cuda_graph = true;                               // whether a step is launched as one graph
  int32_t freeing_streams = 1;                          // how many streams of a GPU dynamic memory may have to wait for
  std::shared_ptr<const cuda::CudaDevice> cuda_device;  // null: opened as `device` says
};

// Fails with FailedPrecondition or NotFound where there is no such device, and with ResourceExhausted.
absl::StatusOr<std::unique_ptr<Backend>> MakeBackend(const BackendOptions& options);

// The same for a CUDA device (cuda/cuda_backend.cc), where CUDA was compiled in.
absl::StatusOr<std::unique_ptr<Backend>> MakeCudaBackend(const BackendOptions& options);

}  // namespace snug::core
