// Runs one node alone, the way an executor would, and watches it: guard bytes around every buffer and workspace,
// outputs and workspace full of garbage beforehand, inputs compared afterwards. Knows nothing of the real executor.
#pragma once

#include <absl/status/statusor.h>

#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "ops/node_types.h"
#include "ops/registry.h"
#include "tests/testing/tensor.h"

namespace snug::core::cuda {
class LaunchContext;
}

namespace snug::core::test {

// kKept is kFast in a program that keeps what follows from its inputs (PrepareContext::kept).
enum class KernelChoice : uint8_t { kPlain, kFast, kKept, kCuda };

// What kCuda runs on. Set before the first such run.
struct CudaRun {
  const cuda::LaunchContext* context = nullptr;
  std::function<absl::Status()> synchronize;
  // Where the device finds bytes of the host's; `synchronize` brings them back. Null: where they are, as a pretended
  // device does (tests/cuda).
  std::function<absl::StatusOr<void*>(void* host, int64_t bytes)> place;
  // Hears that a library's kernel did not serve, so that the one that stands in for it was run. Null: nobody does.
  std::function<void(absl::string_view kernel, const absl::Status& why)> refused;
};
void SetCudaRun(CudaRun run);

struct RunOptions {
  uint8_t garbage = 0xFF;       // what outputs and workspace hold beforehand
  std::vector<Alias> in_place;  // bind these outputs to these inputs' bytes
};

struct NodeRun {
  std::vector<Tensor> outputs;
  std::vector<std::pair<int, Tensor>> mutated;  // inputs that the op declares as mutated, as they are afterwards
};

class NodeRunner {
 public:
  // `types` as inferred. Prepares like the compiler: where Prepare asks for float32 or for other layouts, the next
  // round gets them, and Run converts, the layouts through the op `reorder`. kFast falls back to the plain kernel where
  // there is no other, or where Prepare declines; kCuda where there is no CUDA kernel. On CUDA a later row serves where
  // the first one says as it runs that it does not. `named`: a row, or one of what KernelRow::variants offers; with
  // the licence that its name tells of.
  static absl::StatusOr<NodeRunner> Make(const OpRegistry& registry, const OpDef& op, NodeTypes types,
                                         KernelChoice choice, int threads, uint64_t random_id = 0,
                                         absl::string_view named = {});

  // An absent input is any Tensor. The kernel's own error is passed on; an Internal one says what it did to its
  // buffers.
  absl::StatusOr<NodeRun> Run(const std::vector<Tensor>& inputs, const RunOptions& options = {}) const;

  const KernelRow* kernel() const { return kernel_; }    // null: a view, nothing runs
  bool fast() const { return kernel_ != op_->plain(); }  // whether another than the plain kernel runs
  const NodeTypes& bound_types() const { return bound_; }

 private:
  NodeRunner(const OpRegistry& registry, const OpDef& op, NodeTypes types, int threads, uint64_t random_id);
  absl::StatusOr<NodeRun> RunView(const std::vector<Tensor>& inputs) const;
  bool Mutates(int input) const;

  const OpRegistry* registry_;
  const OpDef* op_;
  NodeTypes types_;  // as the graph has them
  NodeTypes bound_;  // as the kernel wants them
  int threads_;
  uint64_t random_id_;
  const KernelRow* kernel_ = nullptr;  // null: a view
  bool on_cuda_ = false;
  std::shared_ptr<const void> prepared_;
  PreparedKernel instead_;  // of kernel_
  int64_t workspace_bytes_ = 0;
};

// Any layout to any layout; packed ones by the op `reorder`.
absl::StatusOr<Tensor> ConvertLayout(const OpRegistry& registry, const Tensor& tensor, const Layout& layout);

}  // namespace snug::core::test
