// The whole compile, as one list of stages (pipeline.cc).
#pragma once

#include <absl/status/statusor.h>

#include <functional>
#include <set>
#include <string>
#include <vector>

#include "engine/compile/choose.h"
#include "engine/compile/executable.h"
#include "engine/compile/order.h"
#include "engine/graph/graph.h"
#include "ops/registry.h"

namespace snug {
namespace proto {
class Network;
class Optimizer;
}  // namespace proto
class SourceMap;

struct CompileOptions {
  int64_t batch = 0;  // 0: the file's, or 1
  bool training = true;
  DType precision = DType::kFloat32;
  int threads = 1;  // per op
  bool plain_kernels = false;
  std::set<std::string> disabled_passes;
  std::vector<std::string> fetch;               // values to make outputs, by name
  std::vector<std::string> gradients;           // values whose gradients become outputs "d(<name>)"
  bool gradient_norm = false;                   // output "gradient_norm"
  const proto::Optimizer* optimizer = nullptr;  // null: the network's, or SGD with momentum 0.9
  // Called after each stage, with the stage's name ("30_backward") and the graph so far.
  std::function<void(absl::string_view stage, const Graph& graph)> observer;
};

struct Compiled {
  int64_t batch = 1;
  Graph graph;
  std::vector<KernelChoice> kernels;  // by node id
  Order order;
  Executable executable;
};

absl::StatusOr<Compiled> Compile(const proto::Network& network, const SourceMap& locations, const OpRegistry& registry,
                                 const CompileOptions& options);

// The names `disabled_passes` takes.
std::vector<std::string> PassNames();

}  // namespace snug
