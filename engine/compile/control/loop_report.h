// What became of a network's loops, for people.
#pragma once

#include <string>

namespace snug::core {

struct Compiled;

// A line for each loop of the network (LoopChoice), then one for each node that runs rounds: where its carries lie, and
// what it takes. Empty without loops.
std::string LoopsText(const Compiled& compiled);

}  // namespace snug::core
