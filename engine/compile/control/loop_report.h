// What became of a network's loops, for people.
#pragma once

#include <string>

namespace snug::core {

class Json;
struct Compiled;

// A line for each loop of the network (LoopChoice), then one for each node that runs rounds: where its carries lie, and
// what it takes. Empty without loops.
std::string LoopsText(const Compiled& compiled);
// Of that, a line for each loop that keeps something of its rounds for gradients, and one for all of them together.
std::string StashText(const Compiled& compiled);
// Writes "loops": [...], with what became of each.
void WriteLoops(const Compiled& compiled, Json& json);

}  // namespace snug::core
