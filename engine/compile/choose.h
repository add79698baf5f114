// The kernel-choice stage: for every node the plain or the fast kernel, or CUDA's, prepared for its types; where one
// wants other layouts (oneDNN's packed weights) reorder nodes are inserted, one for each (value, layout), and where one
// computes bfloat16 in float32, casts around it.
#pragma once

#include <absl/status/statusor.h>

#include <memory>
#include <string>
#include <vector>

#include "engine/base/device.h"
#include "engine/compile/tuning.h"
#include "engine/graph/graph.h"
#include "ops/registry.h"

namespace snug {

struct ChooseOptions {
  Device device;
  int threads = 1;
  const Tuning* tuning = nullptr;  // which of the kernels that an op offers; null: each op's own choice
  bool list_choices = false;
  bool plain_kernels = false;  // the reference kernels everywhere; on CUDA: our own, and no library's
  bool fast = false;           // on CUDA: a library may add in another sequence, with other bits, each time
  bool tf32 = false;           // on CUDA: a library's float32 products may round their factors to 10 bits of mantissa
};

struct KernelChoice {
  KernelFn kernel = nullptr;         // null: a view, nothing runs
  TogetherFn together = nullptr;     // OpDef::cuda_together
  bool fast = false;                 // CUDA's are
  std::string key, choice;           // where the op offers kernels: TuningKey; which one, empty: the op's own. On CUDA
                                     // the latter says whose kernel it is, where a library may have one
  std::vector<std::string> offered;  // with list_choices
  NodeId inserted_for{};             // of a reorder or cast that was inserted: the node that wanted it
  std::shared_ptr<const void> prepared;
  int64_t workspace_bytes = 0;
};

// Indexed by node id. Changes the graph by inserting reorders and casts.
absl::StatusOr<std::vector<KernelChoice>> ChooseKernels(Graph& graph, const OpRegistry& registry,
                                                        const ChooseOptions& options);

// Nodes whose kernels may give other bits each time (ChooseOptions::fast), by name, in program order.
std::vector<std::string> NodesThatVary(const Graph& graph, const std::vector<KernelChoice>& choices);

}  // namespace snug
