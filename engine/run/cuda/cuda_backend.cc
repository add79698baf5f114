#include <utility>

#include "engine/base/status.h"
#include "engine/cuda/cuda_code_cache.h"
#include "engine/run/cuda/cuda_executor.h"
#include "engine/run/cuda/cuda_staging.h"
#include "engine/run/cuda/cuda_variables.h"
#include "engine/run/session/backend.h"
#include "memory/allocator/cuda_places.h"

namespace snug::core {
namespace {

absl::StatusOr<std::shared_ptr<const cuda::CudaDevice>> Open(Device device) {
  SNUG_ASSIGN_OR_RETURN(std::shared_ptr<const cuda::Api> api, cuda::Api::Load());
  return cuda::CudaDevice::Open(std::move(api), device.index);
}

class CudaBackend final : public Backend {
 public:
  CudaBackend(std::shared_ptr<const cuda::CudaDevice> device, bool graph)
      : streams_(std::move(device)), graph_(graph) {}

  absl::Status Start(const BackendOptions& options) {
    SNUG_RETURN_IF_ERROR(streams_.GrowTo(static_cast<size_t>(options.freeing_streams)));
    SNUG_ASSIGN_OR_RETURN(variables_, CudaVariables::Create(streams_, options.state_bytes));
    SNUG_ASSIGN_OR_RETURN(step_, cuda::CudaArena::Create(streams_.device(), options.step_bytes));
    if (options.upload_bytes == 0) return absl::OkStatus();
    absl::StatusOr<std::unique_ptr<CudaUploads>> uploads = CudaUploads::Create(streams_.device(), options.upload_bytes);
    if (!uploads.ok()) return absl::IsResourceExhausted(uploads.status()) ? absl::OkStatus() : uploads.status();
    uploads_ = *std::move(uploads);
    return absl::OkStatus();
  }

  ArenaBytes arenas() const override { return {variables_->on_device(), step_->data()}; }
  int64_t state_bytes() const override { return variables_->size_bytes(); }
  int64_t step_bytes() const override { return step_->size_bytes(); }
  int64_t upload_bytes() const override { return uploads_ == nullptr ? 0 : uploads_->size_bytes(); }

  absl::StatusOr<std::byte*> OnHost(int64_t offset, int64_t bytes, HostAccess access) override {
    return variables_->OnHost(offset, bytes, access);
  }
  absl::Status BeforeRun() override { return variables_->Upload(); }
  void AfterRun() override { variables_->Ran(); }

  absl::StatusOr<std::unique_ptr<Executor>> MakeExecutor(ExecutorKind kind, const Executable& executable,
                                                         const ArenaBytes& arenas, Poison*) override {
    SNUG_RETURN_IF_ERROR(CheckPlanned(kind, executable));
    const CudaMode mode = kind == ExecutorKind::kDynamic          ? CudaMode::kPushed
                          : executable.memory.dynamic.has_value() ? CudaMode::kDynamic
                          : kind == ExecutorKind::kSerial         ? CudaMode::kSerial
                          : graph_                                ? CudaMode::kGraph
                                                                  : CudaMode::kStreams;
    return CudaExecutor::Create(executable, arenas, streams_, mode, uploads_.get(), code_);
  }

  absl::Status Follow(CUstream_st* stream) override { return streams_.Follow(stream); }

  int64_t FreeBytes() const override { return streams_.device()->FreeBytes().value_or(-1); }
  // One thread asks for the Steps, one after the other. So the next Step may take at once what one gives back, long
  // before either runs: they run on the same stream, or the dependency rule keeps them apart.
  absl::StatusOr<memory::Place> DynamicPlace(memory::Places* places) override {
    const int index = streams_.device()->info().index;
    memory::SupportCuda({streams_.device()}, {{index, streams_.all()}}, places);
    return memory::Place::Cuda(index);
  }

 private:
  CudaStreams streams_;
  const bool graph_;
  cuda::CodeCache code_{cuda::DefaultCodeFolder()};
  std::unique_ptr<CudaVariables> variables_;
  std::unique_ptr<cuda::CudaArena> step_;
  std::unique_ptr<CudaUploads> uploads_;  // null: nothing is uploaded ahead
};

}  // namespace

absl::StatusOr<std::unique_ptr<Backend>> MakeCudaBackend(const BackendOptions& options) {
  std::shared_ptr<const cuda::CudaDevice> device = options.cuda_device;
  if (device == nullptr) {
    SNUG_ASSIGN_OR_RETURN(device, Open(options.device));
  }
  auto backend = std::make_unique<CudaBackend>(std::move(device), options.cuda_graph);
  SNUG_RETURN_IF_ERROR(backend->Start(options));
  return backend;
}

}  // namespace snug::core
