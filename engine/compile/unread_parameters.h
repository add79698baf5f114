// Parameters of a training that no node reads, as where a layer's input names another layer than it means to.
#pragma once

#include <string>

namespace snug::core {

struct Compiled;

// Returns a line for each layer that has such parameters, with its place; "" for programs that do not train, which may
// be asked for a part of a network alone.
std::string UnreadParametersText(const Compiled& compiled);

}  // namespace snug::core
