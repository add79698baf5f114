// The first stages, from 10_graph to 30_backward: from a network to a graph with gradients, whose loops are nodes. And
// 35_unroll, which makes straight lines of those that are not to stay nodes.
#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <string>
#include <unordered_map>
#include <vector>

#include "engine/compile/control/loop_rule.h"
#include "engine/compile/control/stash.h"
#include "engine/compile/control/stash_limit.h"
#include "engine/compile/differentiate/row_gradients.h"
#include "engine/compile/differentiate/update_groups.h"
#include "engine/compile/import/import.h"
#include "engine/graph/graph.h"
#include "ops/registry.h"

namespace snug::proto {
class Network;
class Optimizer;
}  // namespace snug::proto

namespace snug::core {

class SourceMap;
struct CompileOptions;

// The network with gradients, and with its loops as nodes.
struct Front {
  Imported imported;
  std::vector<LoopChoice> loops;
  std::vector<LoopStash> stashes;          // of the loops that are not inside others, if it is trained
  std::vector<std::string> decay_differs;  // Compiled has it
  std::vector<UpdateGroup> updates;        // if it is trained: one, or several in turn
  std::unordered_map<ValueId, ValueId> gradients;
  std::vector<TableGradient> tables;  // by AddUpdates, which comes later
  std::vector<VariableId> read_by_rounds;
};

// If `chunks` is not null, these loops compute rounds anew.
absl::StatusOr<Front> MakeFront(const proto::Network& network, const SourceMap& locations, const OpRegistry& registry,
                                const proto::Optimizer& optimizer, const Chunks* chunks, const CompileOptions& options);

// Whether all passes run that take out of loops what rounds do to their inputs alone.
bool HoistsLoopInputs(const CompileOptions& options);

// Unrolls the loops that are to be; `gradients` and the objectives of `updates` follow.
absl::Status UnrollAll(Front& front, const OpRegistry& registry, const CompileOptions& options);

}  // namespace snug::core
