// What a session runs on: where its arenas lie, how the host gets at Variables, and what runs the Steps.
#pragma once

#include <absl/status/statusor.h>

#include <cstddef>
#include <cstdint>
#include <memory>

#include "engine/run/bound_steps.h"
#include "engine/run/executor.h"
#include "engine/run/executors.h"
#include "memory/allocator/places.h"

struct CUstream_st;

namespace snug {

namespace cuda {
class CudaDevice;
}

// What the host does with bytes of Variables: reads them, writes all of them, or who knows.
enum class HostAccess : uint8_t { kRead, kWrite, kReadWrite };

class Backend {
 public:
  virtual ~Backend() = default;

  // As kernels see them.
  virtual ArenaBytes arenas() const = 0;
  // What was taken of the device's memory.
  virtual int64_t state_bytes() const = 0;
  virtual int64_t step_bytes() const = 0;
  virtual int64_t upload_bytes() const { return 0; }  // for inputs that wait for their step

  // Bytes of the state arena where the host finds them, up to the next run.
  virtual absl::StatusOr<std::byte*> OnHost(int64_t offset, int64_t bytes, HostAccess access) = 0;

  // The Executable, what `arenas` points to and `poison` must outlive it.
  virtual absl::StatusOr<std::unique_ptr<Executor>> MakeExecutor(EngineKind kind, const Executable& executable,
                                                                 const ArenaBytes& arenas, Poison* poison) = 0;
  // Of its memory, for arenas; < 0: unknown.
  virtual int64_t FreeBytes() const = 0;
  // Where dynamic memory is taken from; `places` learns of it.
  virtual absl::StatusOr<memory::Place> DynamicPlace(memory::Places* places) = 0;

  // A run comes, on the device, after what this stream of the caller's was given before, and before what it is given
  // after. FailedPrecondition where there are no such streams.
  virtual absl::Status Follow(CUstream_st* stream);

  // Around each run.
  virtual absl::Status BeforeRun() { return absl::OkStatus(); }
  virtual void AfterRun() {}
};

struct BackendOptions {
  Device device;
  int64_t state_bytes = 0, step_bytes = 0;
  int64_t upload_bytes = 0;                             // done without where they do not fit
  bool cuda_graph = true;                               // a step is launched as one graph
  int32_t freeing_streams = 1;                          // of a GPU, that dynamic memory may have to wait for
  std::shared_ptr<const cuda::CudaDevice> cuda_device;  // null: opened by `device`
};

// FailedPrecondition, NotFound where there is no such device; ResourceExhausted.
absl::StatusOr<std::unique_ptr<Backend>> MakeBackend(const BackendOptions& options);

}  // namespace snug
