// What follows from Variables alone in a program that changes none of them (a folded weight, a packed one) need not be
// computed in every step: it is taken out, into a program of its own, and read as a Variable from then on. The session
// runs that program before the first step, and again when Variables have been set.
#pragma once

#include <vector>

#include "engine/compile/kernels/choose.h"
#include "engine/graph/graph.h"
#include "ops/registry.h"

namespace snug::core {

// Says whether Variables of this role hold the same from step to step, unless training changes them: not what a step or
// the host leaves there, such as a state that a network carries.
bool HoldsStill(VariableRole role);

// By value id: whether the value is the content of a Variable that no node of the graph changes, or follows from such
// alone.
std::vector<char> FindDerived(const Graph& graph, const OpRegistry& registry);

// The program that computes them. Its outputs have the names of the Variables that they become.
struct Derivation {
  Graph graph;
  std::vector<KernelChoice> kernels;  // indexed by node id
};

// Takes out the nodes whose kernels are chosen by `kernels`, and adds Variables of VariableRole::kDerived for what the
// rest reads of theirs. The result's graph has no nodes if there are none to take out.
Derivation TakeOutDerived(Graph& graph, const OpRegistry& registry, std::vector<KernelChoice>& kernels);

}  // namespace snug::core
