// Which ports of a loop in normal form are for one value, as seen from the graph around it and from its body.
#pragma once

#include <vector>

#include "engine/graph/graph.h"

namespace snug::proto {
class NormalLoop;
}

namespace snug::core {

// What has one of these ports has the type of all of them. -1: it has no such port.
struct SharedPorts {
  int input = -1;   // of the body
  int feed = -1;    // the node's input that the first round reads there
  int output = -1;  // of the body
  int result = -1;  // the node's output for what the last round put out
  ValueId stash;    // around the loop: has the value of each round, as it is; invalid: there is none
};

// Returns them for what is carried, for what all rounds read, and for what rounds keep in a stash or read of one. A
// stash that others read too than the rounds of loops is none, and scanned and collected values have a type of their
// own around the loop.
std::vector<SharedPorts> SharedPortsOf(const Graph& graph, NodeId loop);

// Whether it is a branch's, which runs once or not at all.
bool IsBodyOfBranch(const proto::NormalLoop& options);

}  // namespace snug::core
