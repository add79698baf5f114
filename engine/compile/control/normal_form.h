// Puts loops and branches into the form that the stages after it understand.
//
// A branch becomes all its bodies, and choices of what they put out, or loops of which only the one that is taken runs
// (branch.h). A loop stays a node. In its normal form:
//
//   * input i of the node feeds input i of the body, and every port says what it is (proto::LoopNode): captured,
//   carried,
//     a slice of what is scanned, or the number of the round;
//   * a count and a condition have moved into the body: a round that does not count leaves carries as they are and
//     collects zeros, whatever else it computes, and lets no gradient through. The body's output `goes_on` ends the
//     loop after the first round in which no sample counts; running more of them would change nothing, to the bit;
//   * `rolled` says whether it stays a node to the end (compile_loop.h) or becomes the straight line of its rounds
//     (unroll.h). Gradients (differentiate_loop.h) are taken of the node in both cases, so that both give the same
//     bits.
#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <vector>

#include "engine/compile/control/loop_rule.h"
#include "engine/compile/control/stash_limit.h"
#include "engine/graph/graph.h"
#include "ops/registry.h"

namespace snug::core {

struct Imported;

bool HasControlFlow(const Graph& graph);

// How many nodes there will be, about; at most 2^62. Of what is known to be rolled, its body counts.
int64_t CountUnrolled(const Graph& graph);

struct ControlOptions {
  bool training = false;  // whether there will be gradients
  LoopRule rule = LoopRule::kBySize;
  int64_t recompute_rounds = 0;    // CompileOptions
  const Chunks* chunks = nullptr;  // if not null, only these loops compute rounds anew, so many each
  bool hoist_from_chunks = false;  // what a chunk's rounds do to their slices alone is done for all of them at once
  // All bodies of a branch run, whatever the rule: none keeps what its gradient reads as loops do.
  bool all_bodies = false;
};

// Returns what becomes of each loop, in program order, those inside others after these.
absl::StatusOr<std::vector<LoopChoice>> NormalizeControlFlow(Imported& imported, const OpRegistry& registry,
                                                             const ControlOptions& options);

}  // namespace snug::core
