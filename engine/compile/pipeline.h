// The whole compile, as one list of stages (pipeline.cc).
#pragma once

#include <absl/status/statusor.h>

#include <functional>
#include <set>
#include <string>
#include <vector>

#include "engine/compile/choose.h"
#include "engine/compile/executable.h"
#include "engine/compile/plan_memory.h"
#include "engine/compile/tasks.h"
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
  // Whether what is fed stays until it is fed anew. Otherwise a step consumes its inputs: their bytes are free after
  // the last reader, and each step must be fed.
  bool keep_inputs = false;
  MemoryOptions memory;
  // Called after each stage, with the stage's name ("30_backward") and the graph so far.
  std::function<void(absl::string_view stage, const Graph& graph)> observer;
};

struct Compiled {
  int64_t batch = 1;
  bool training = true;
  DType precision = DType::kFloat32;
  int threads = 1;  // per op
  bool keep_inputs = false;
  Graph graph;
  std::vector<KernelChoice> kernels;  // by node id
  StepTasks tasks;
  Executable executable;
};

// Up to the kernels: all that planning needs. The executable is still empty.
absl::StatusOr<Compiled> CompileGraph(const proto::Network& network, const SourceMap& locations,
                                      const OpRegistry& registry, const CompileOptions& options);
// The rest: order, plan, executable. May be done again, with other options.
absl::Status PlanAndLower(Compiled& compiled, const MemoryOptions& options);
// Both.
absl::StatusOr<Compiled> Compile(const proto::Network& network, const SourceMap& locations, const OpRegistry& registry,
                                 const CompileOptions& options);

// The names `disabled_passes` takes.
std::vector<std::string> PassNames();

}  // namespace snug
