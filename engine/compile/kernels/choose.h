// The kernel-choice stage: for every node the first of its op's rows (ops/kernel_row.h) that serves its types, prepared
// for them, with the reasons of those before it; where one wants other layouts (oneDNN's packed weights) reorder nodes
// are inserted, one for each (value, layout), and where one computes bfloat16 in float32, casts around it.
#pragma once

#include <absl/status/statusor.h>

#include <memory>
#include <string>
#include <vector>

#include "engine/base/device.h"
#include "engine/compile/kernels/tuning.h"
#include "engine/graph/graph.h"
#include "ops/registry.h"

namespace snug::core {

struct ChooseOptions {
  Device device;
  int threads = 1;
  const Tuning* tuning = nullptr;  // says which of the kernels that an op offers is used; null: each op's own choice
  bool list_choices = false;
  bool plain_kernels = false;   // use the reference kernels everywhere; on CUDA our own, and none from a library
  bool fast = false;            // on CUDA, libraries may add in a different sequence each time, which gives different
                                // bits
  bool tf32 = false;            // on CUDA, float32 products of libraries may round their factors to 10 bits of mantissa
  bool split_products = false;  // on the CPU, large float32 products may be sums of products of bfloat16 pieces
  // Reordered weights are computed once (derive.h), so kernels may ask for what would not pay in every step.
  bool keep_derived = false;
};

// A row that stands before the one that serves a node, and why it does not serve.
struct PassedOver {
  absl::string_view kernel, library;  // of the row (ops/kernel_row.h)
  NotServed reason;
};

struct KernelChoice {
  std::shared_ptr<const KernelRow> kernel;  // null: a view, nothing runs
  // Where the row has variants: TuningKey; which one, as the row calls it, empty: its own.
  std::string key, choice;
  bool varies = false;                  // it may give other bits each time (ChooseOptions::fast)
  std::vector<std::string> offered;     // with list_choices
  std::vector<PassedOver> passed_over;  // in order of preference
  NodeId inserted_for{};                // of a reorder or cast that was inserted: the node that wanted it
  std::shared_ptr<const void> prepared;
  int64_t workspace_bytes = 0;  // enough for `instead` too
  PreparedKernel instead;       // serves where the kernel cannot be settled on a device; null: there is no need

  std::string Name() const;  // for people: "cudnn library:2"; empty: nothing runs
  bool fast() const { return kernel != nullptr && kernel->name != "plain"; }
};

// The result is indexed by node id. Changes the graph by inserting reorders and casts.
absl::StatusOr<std::vector<KernelChoice>> ChooseKernels(Graph& graph, const OpRegistry& registry,
                                                        const ChooseOptions& options);

// Returns the names of nodes whose kernels may give other bits each time (ChooseOptions::fast), in program order.
std::vector<std::string> NodesThatVary(const Graph& graph, const std::vector<KernelChoice>& choices);

}  // namespace snug::core
