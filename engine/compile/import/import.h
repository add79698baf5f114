// Turns a NetworkProto into a Graph: resolves names and turns each layer into parameters and nodes (by its op's `layer`
// hook), with types, for one batch size, precision and mode. It collects up to 20 located errors instead of stopping at
// one.
#pragma once

#include <absl/status/statusor.h>

#include <vector>

#include "engine/graph/graph.h"
#include "ops/registry.h"

namespace snug::proto {
class Network;
}

namespace snug::core {
class SourceMap;

struct ImportOptions {
  int64_t batch = 0;          // samples in a step; 0: `training { batch }`, the network's own, or 1
  int64_t micro_batches = 1;  // how many runs a step's samples are split into
  bool training = true;
  DType precision = DType::kFloat32;
  bool stochastic_rounding = false;  // parameters are kept in the precision, which is bfloat16
};

struct Imported {
  Graph graph;           // only the forward pass; objectives and outputs are set
  int64_t batch = 1;     // samples in a run
  ValueId random_state;  // an int64[2] Variable {seed, step}; always there in training
  ValueId draw_state;    // with micro-batches: the Variable by which layers draw random numbers, if any does
  // Nodes that mutate statistics. The updates stage appends the gate to their inputs and adds them.
  std::vector<NodeSpec> statistic_updates;
};

absl::StatusOr<Imported> Import(const proto::Network& network, const SourceMap& locations, const OpRegistry& registry,
                                const ImportOptions& options);

inline constexpr absl::string_view kRandomStateName = "state.random";
// The name of an int64[2] Variable {seed, runs before this one}, for training in micro-batches, so that each draws
// other numbers. It is set before each run.
inline constexpr absl::string_view kDrawStateName = "state.draw";

}  // namespace snug::core
