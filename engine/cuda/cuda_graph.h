// A CUDA graph: what streams are asked for, recorded once and launched as a whole.
//
//   CudaGraph graph(device);
//   SNUG_RETURN_IF_ERROR(graph.Capture(*stream, [&] { return AskForTheStep(); }));
//   SNUG_RETURN_IF_ERROR(graph.Launch(*stream));
#pragma once

#include <absl/status/status.h>

#include <functional>
#include <memory>

#include "engine/cuda/cuda_stream.h"

struct CUgraph_st;
struct CUgraphExec_st;

namespace snug::core::cuda {

// Thread-compatible.
class CudaGraph {
 public:
  explicit CudaGraph(std::shared_ptr<const CudaDevice> device) : device_(std::move(device)) {}
  ~CudaGraph();  // all launches have to be done
  CudaGraph(const CudaGraph&) = delete;
  CudaGraph& operator=(const CudaGraph&) = delete;

  // Records what `ask` asks of `stream`, and of streams that wait for events of it and that it waits for in the end.
  // Nothing runs; addresses and numbers are recorded as they are now. If only these differ from an earlier recording,
  // the graph is changed in place. After an error there is no graph.
  absl::Status Capture(CudaStream& stream, const std::function<absl::Status()>& ask);
  bool captured() const { return executable_ != nullptr; }

  absl::Status Launch(CudaStream& stream) const;

 private:
  absl::Status Use(CUgraph_st* recorded);
  absl::Status Instantiate(CUgraph_st* recorded);
  void Drop();

  const std::shared_ptr<const CudaDevice> device_;
  CUgraphExec_st* executable_ = nullptr;  // null: nothing is captured
};

}  // namespace snug::core::cuda
