// A network as TensorFlow's GraphDef, which TensorBoard draws: a node for each input and layer, its op, its options and
// the shapes of what it computes.
#pragma once

#include <string>

namespace snug::proto {
class Network;
}

namespace snug::core {
class Graph;
}

namespace snug::core::tensorboard {

// The bytes of the message. A dot in a layer's name becomes a slash: TensorBoard folds what has a common beginning up
// to a slash. `graph` knows the shapes; what it lacks, because passes have replaced it, is drawn without.
std::string GraphDefOf(const proto::Network& network, const Graph& graph);

}  // namespace snug::core::tensorboard
