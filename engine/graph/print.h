// Writes a Graph as text or for Graphviz: in program order, by name, with the same bytes on every run.
#pragma once

#include <string>

#include "engine/graph/graph.h"

namespace snug::core {

// input image float32[64, 784]
// variable fc1.weight float32[256, 784] parameter
// fc1 = dense(image, fc1.weight, fc1.bias) {units: 256} : float32[64, 256]
std::string ToText(const Graph& graph);

std::string ToDot(const Graph& graph);

}  // namespace snug::core
