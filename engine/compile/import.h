// NetworkProto -> Graph: resolves names, turns each layer into parameters and nodes (its op's `layer` hook), typed as
// it goes, for one batch size, precision and mode. Collects up to 20 located errors instead of stopping at one.
#pragma once

#include <absl/status/statusor.h>

#include <vector>

#include "engine/graph/graph.h"
#include "ops/registry.h"

namespace snug {
namespace proto {
class Network;
}
class SourceMap;

struct ImportOptions {
  int64_t batch = 0;          // samples in a step; 0: the file's, or 1
  int64_t micro_batches = 1;  // runs in which they go through the network
  bool training = true;
  DType precision = DType::kFloat32;
};

struct Imported {
  Graph graph;           // forward only; objectives and outputs set
  int64_t batch = 1;     // samples in a run
  ValueId random_state;  // int64[2] Variable {seed, step}; always there in training
  ValueId draw_state;    // in micro-batches: what layers draw random numbers by, if any does
  // Nodes that mutate statistics: the updates stage appends the gate to their inputs and adds them.
  std::vector<NodeSpec> statistic_updates;
};

absl::StatusOr<Imported> Import(const proto::Network& network, const SourceMap& locations, const OpRegistry& registry,
                                const ImportOptions& options);

inline constexpr absl::string_view kRandomStateName = "state.random";
// int64[2] {seed, runs before this one}, of training in micro-batches: each draws other numbers. Set before each run.
inline constexpr absl::string_view kDrawStateName = "state.draw";

}  // namespace snug
