// What loops keep of their rounds for gradients.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/base/text/source_loc.h"
#include "engine/graph/graph.h"
#include "ops/registry.h"

namespace snug::core {

struct LoopStash {
  std::string loop;  // its name in the network (LoopChoice)
  SourceLoc loc;
  int64_t rounds = 0, chunk = 0;                  // as LoopChoice has them
  int64_t kept = 0;                               // of all rounds; with chunks: where they begin
  int64_t again = 0;                              // with chunks: of all rounds of the one whose gradient is computed
  int64_t kept_by_chunk = 0, again_by_round = 0;  // what these are made of, at most: for chunks of another length
  int64_t within = 0;                             // in a round: of loops inside, that compute theirs anew
  double flops = 0;                               // of all its rounds
  std::string why_not;                            // of LoopChoice, if chunks were asked for

  int64_t bytes() const { return kept + again + within; }
};

// Finds the loops of a graph in normal form that has gradients, but not those inside others, in program order.
std::vector<LoopStash> StashesOf(const Graph& graph, const OpRegistry& registry);

// What loops keep that run one after the other: what is kept of rounds stays until its gradient, what is computed anew
// is there while one loop's gradient runs.
int64_t StashBytes(const std::vector<LoopStash>& stashes);

}  // namespace snug::core
