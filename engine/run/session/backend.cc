#include "engine/run/session/backend.h"

#include <absl/strings/str_cat.h>

#include <utility>

#include "engine/base/has_cuda.h"
#include "engine/base/machine.h"
#include "engine/base/status.h"
#include "memory/host_arena.h"
#if SNUG_HAS_CUDA
#endif

namespace snug::core {
namespace {

class HostBackend final : public Backend {
 public:
  HostBackend(std::unique_ptr<memory::HostArena> state, std::unique_ptr<memory::HostArena> step)
      : state_(std::move(state)), step_(std::move(step)) {}

  ArenaBytes arenas() const override { return {state_->data(), step_->data()}; }
  int64_t state_bytes() const override { return state_->size_bytes(); }
  int64_t step_bytes() const override { return step_->size_bytes(); }

  absl::StatusOr<std::byte*> OnHost(int64_t offset, int64_t, HostAccess) override { return state_->data() + offset; }

  absl::StatusOr<std::unique_ptr<Executor>> MakeExecutor(ExecutorKind kind, const Executable& executable,
                                                         const ArenaBytes& arenas, Poison* poison) override {
    return core::MakeExecutor(kind, executable, arenas, poison);
  }
  int64_t FreeBytes() const override { return AvailableBytes(); }
  absl::StatusOr<memory::Place> DynamicPlace(memory::Places*) override { return memory::Place::Cpu(); }

 private:
  const std::unique_ptr<memory::HostArena> state_, step_;
};

}  // namespace

absl::Status Backend::Follow(CUstream_st* /*stream*/) {
  return absl::FailedPreconditionError("following a CUDA stream: expected a session on cuda, found one on cpu");
}

absl::StatusOr<std::unique_ptr<Backend>> MakeBackend(const BackendOptions& options) {
  if (options.device.kind == Device::Kind::kCuda) {
#if SNUG_HAS_CUDA
    return MakeCudaBackend(options);
#else
    return absl::FailedPreconditionError(
        absl::StrCat(options.device.ToString(), ": this build has no CUDA; CMake finds it where nvcc is"));
#endif
  }
  SNUG_ASSIGN_OR_RETURN(std::unique_ptr<memory::HostArena> state, memory::HostArena::Create(options.state_bytes));
  SNUG_ASSIGN_OR_RETURN(std::unique_ptr<memory::HostArena> step, memory::HostArena::Create(options.step_bytes));
  return std::make_unique<HostBackend>(std::move(state), std::move(step));
}

}  // namespace snug::core
