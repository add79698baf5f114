// What loops read in each of their rounds, and nothing changes meanwhile: weights. Another layout of it is made once
// for all rounds, before the loop, so kernels may ask for one that would not pay for a single product.
//
// Kernels that ask for it have the bits of others only by accident. So which node gets one follows from the network as
// it is imported, and not from what becomes of its loops: the rounds of a straight line, those of a body that is
// compiled once, those that are computed anew and nodes outside of loops that read the same value all get it. Products
// of too few rows to pack for are left out, by their rows alone, which a hoisted product of a chunk has as many of as
// the chunk makes.
#pragma once

#include <absl/status/statusor.h>

#include <set>
#include <vector>

#include "engine/compile/kernels/choose.h"

namespace snug::core {

// A value that the body of a loop reads in another layout, which is made before the loop.
struct ReorderedBefore {
  ValueId input;      // of the body: the value as it is
  ValueId reordered;  // of the body: an input that was added for it
};

struct RoundReads {
  std::set<ValueId> values;
  // The graph is the body of a loop: what it reads in other layouts is put here, and the loop sees to it. Null:
  // reorders stand in the graph itself.
  std::vector<ReorderedBefore>* before = nullptr;
};

// Returns the Variables that loops read in their rounds, of a network as it is imported.
std::vector<VariableId> ReadByRounds(const Graph& graph);

// ChooseKernels (choose.h) for a network with loops, or for a body.
absl::StatusOr<std::vector<KernelChoice>> ChooseKernelsOfRounds(Graph& graph, const OpRegistry& registry,
                                                                const ChooseOptions& options, const RoundReads& reads);

}  // namespace snug::core
