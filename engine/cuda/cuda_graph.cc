#include "engine/cuda/cuda_graph.h"

#include <utility>

#include "engine/base/status.h"
#include "engine/cuda/cuda_table.h"

namespace snug::core::cuda {

CudaGraph::~CudaGraph() { Drop(); }

void CudaGraph::Drop() {
  if (executable_ == nullptr) return;
  device_->MakeCurrent().IgnoreError();
  device_->api().table().cuGraphExecDestroy(std::exchange(executable_, nullptr));
}

absl::Status CudaGraph::Capture(CudaStream& stream, const std::function<absl::Status()>& ask) {
  SNUG_RETURN_IF_ERROR(device_->MakeCurrent());
  const Api& api = device_->api();
  // Other threads, which may have sessions of their own, can go on as they like.
  SNUG_CUDA_CALL(api, cuStreamBeginCapture, (stream.handle(), CU_STREAM_CAPTURE_MODE_THREAD_LOCAL),
                 "beginning to record a step");
  absl::Status status = ask();
  CUgraph recorded = nullptr;
  const CUresult ended = api.table().cuStreamEndCapture(stream.handle(), &recorded);
  // After an error of `ask` the recording is incomplete, so the error that ends it only follows from the first.
  if (status.ok() && ended != CUDA_SUCCESS) {
    status = api.Error(Library::kDriver, "cuStreamEndCapture", ended, "recording a step");
  }
  if (status.ok()) status = Use(recorded);
  if (recorded != nullptr) api.table().cuGraphDestroy(recorded);
  if (!status.ok()) Drop();
  return status;
}

absl::Status CudaGraph::Use(CUgraph_st* recorded) {
  if (executable_ != nullptr) {
    CUgraphExecUpdateResultInfo info = {};
    if (device_->api().table().cuGraphExecUpdate(executable_, recorded, &info) == CUDA_SUCCESS) {
      return absl::OkStatus();
    }
    Drop();
  }
  return Instantiate(recorded);
}

absl::Status CudaGraph::Instantiate(CUgraph_st* recorded) {
  SNUG_CUDA_CALL(device_->api(), cuGraphInstantiate, (&executable_, recorded, 0), "making a graph of a step");
  return absl::OkStatus();
}

absl::Status CudaGraph::Launch(CudaStream& stream) const {
  SNUG_CUDA_CALL(device_->api(), cuGraphLaunch, (executable_, stream.handle()), "launching a step");
  return absl::OkStatus();
}

}  // namespace snug::core::cuda
