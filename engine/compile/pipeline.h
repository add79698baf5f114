// The whole compile, as one list of stages (pipeline.cc).
#pragma once

#include <absl/status/statusor.h>

#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "engine/base/device.h"
#include "engine/compile/control/loop_rule.h"
#include "engine/compile/differentiate/differentiate.h"
#include "engine/compile/executable.h"
#include "engine/compile/import/decay.h"
#include "engine/compile/kernels/choose.h"
#include "engine/compile/memory/plan_memory.h"
#include "engine/compile/memory/tasks.h"
#include "engine/compile/memory/views.h"
#include "engine/compile/summary.h"
#include "engine/graph/graph.h"
#include "ops/registry.h"
#include "proto/option_places.h"

namespace snug::proto {
class Network;
class Optimizer;
}  // namespace snug::proto

namespace snug::core {
class SourceMap;

struct CompileOptions {
  Device device;
  int64_t batch = 0;  // samples in a step; 0: `training { batch }`, the network's own, or 1
  bool training = true;
  MicroBatches micro_batches;  // for training
  DType precision = DType::kFloat32;
  // In bfloat16: parameters and slots of optimizers are bfloat16 too, and updates round them stochastically.
  bool stochastic_rounding = false;
  int threads = 1;                       // per op
  bool plain_kernels = false;            // see ChooseOptions
  bool fast = false, tf32 = false;       // only for CUDA
  std::shared_ptr<const Tuning> tuning;  // names kernels; null: each op's own choice
  bool list_choices = false;             // fills KernelChoice::offered, for tuning
  LoopRule loops = LoopRule::kBySize;    // which loops stay one node; for CUDA, all are unrolled
  // Of loops that are trained, only what carries are every so many rounds is kept for gradients, which compute the
  // rounds between anew. 0: all that gradients need is kept. kSquareRoot: about the square root of the rounds.
  int64_t recompute_rounds = 0;
  // In place of that: what loops keep of rounds for gradients takes at most so many bytes in all. Where it would take
  // more, loops compute rounds anew, as few and in chunks as long as possible (control/stash_limit.h). 0: no limit.
  int64_t stash_limit = 0;
  std::set<std::string> disabled_passes;
  std::vector<std::string> fetch;      // names of values to make outputs
  std::vector<std::string> only;       // for forward-only programs: these are the outputs; empty: the network's
  std::vector<std::string> gradients;  // values whose gradients become outputs "d(<name>)"
  bool gradient_norm = false;          // adds an output "gradient_norm"
  // Makes outputs "d(<name>)" of the gradients of all parameters that are trained, as the objectives make them: the
  // means of a step's micro-batches, before clipping. They stay until the end of the step. A table whose gradient is a
  // list of rows has none.
  bool parameter_gradients = false;
  DecayRule decay_rule = DecayRule::kAll;
  std::optional<std::vector<std::string>> no_decay;  // patterns (engine/base/text/glob.h); if absent, the network's
  OptionPlaces no_decay_places;                      // where the patterns were written, for errors
  const proto::Optimizer* optimizer = nullptr;       // null: the network's, or SGD with momentum 0.9
  // Whether what is fed stays until it is fed anew. Otherwise a step consumes its inputs: their bytes are free after
  // the last reader, and each step must be fed.
  bool keep_inputs = false;
  // For forward-only programs on the CPU: what follows from Variables alone is computed once, and kept
  // (kernels/derive.h). Passes and kernels then make more follow from them: batch norm is folded into convolutions, and
  // weights are packed.
  bool keep_derived = false;
  // In training on the CPU: gradients of large parameters are made in blocks that their updates use at once
  // (passes/update_as_made.cc).
  bool update_as_made = false;
  // In training on the CPU: tables whose gradients are lists of rows also where the whole gives other bits, or never
  // (differentiate/row_gradients.h).
  SparseTables sparse_tables;
  // In training on the CPU: what one sweep gives of values that stay in any case is computed again for the backward
  // pass (passes/recompute_sweeps.cc).
  bool recompute_sweeps = false;
  // In training on the CPU: gradients come from what an op gave, where what it was given would be kept for them alone
  // (passes/gradients_from_outputs.cc).
  bool gradients_from_outputs = false;
  // In training on the CPU: a last dense layer, its softmax_cross_entropy and their gradients are done in blocks of
  // rows (passes/loss_in_blocks.cc).
  bool loss_in_blocks = false;
  // In training on the CPU: max pooling keeps its indices two to a byte (passes/half_byte_indices.cc).
  bool half_byte_indices = false;
  // On CPUs with AMX: large float32 products are sums of products of bfloat16 pieces
  // (ops/kernels/matmul/split_gemm.h).
  bool split_products = false;
  // Names of inputs and outputs whose bytes are the caller's. The plan has none for them, and Program::Bind says before
  // a step where they are. A step never writes over a bound input.
  std::vector<std::string> bound;
  MemoryOptions memory;
  // Called after each stage, with the stage's name ("30_backward") and the graph so far.
  std::function<void(absl::string_view stage, const Graph& graph)> observer;
};

struct Compiled {
  const OpRegistry* registry = nullptr;  // has the nodes' ops; it must outlive whoever plans and lowers again
  Device device;
  int64_t batch = 1;  // samples in a run
  bool training = true;
  MicroBatches micro_batches;
  DType precision = DType::kFloat32;
  bool stochastic_rounding = false;
  int threads = 1;  // per op
  bool keep_inputs = false;
  std::shared_ptr<const Tuning> tuning;
  std::vector<LoopChoice> loops;  // what became of the network's
  std::vector<CallerValue> bound;
  DecayRule decay_rule = DecayRule::kAll;
  std::vector<std::string> decay_differs;  // parameters that decay by one rule and not by the other
  std::vector<TableGradient> tables;       // what became of the gradients of tables
  std::vector<std::string> in_vain;        // options that ask for another graph, and found nothing to do in this one
  std::vector<std::string> rounding;       // options that may give other last bits, as they are given
  GraphSummary summary;                    // of the graph before layouts of libraries came in
  Graph graph;
  std::vector<KernelChoice> kernels;  // indexed by node id
  StepTasks tasks;
  Executable executable;
  // The program that computes this one's derived Variables, which are its outputs, bound; null: there are none.
  std::shared_ptr<Compiled> derivation;

  // The bytes of all arenas of a session of this program alone.
  int64_t planned_bytes() const;
};

// Compiles up to the choice of kernels, which is all that planning needs. The executable is still empty.
absl::StatusOr<Compiled> CompileGraph(const proto::Network& network, const SourceMap& locations,
                                      const OpRegistry& registry, const CompileOptions& options);
// Finds views and tasks of a graph with kernels.
void FindStepTasks(Compiled& compiled);
// Does the rest: order, plan, executable. May be called again with other options.
absl::Status PlanAndLower(Compiled& compiled, const MemoryOptions& options);
// Does both.
absl::StatusOr<Compiled> Compile(const proto::Network& network, const SourceMap& locations, const OpRegistry& registry,
                                 const CompileOptions& options);

// A line for each option that found nothing to do; empty: there is none.
std::string InVainText(const Compiled& compiled);

// Returns the names that `disabled_passes` accepts.
std::vector<std::string> PassNames();

}  // namespace snug::core
