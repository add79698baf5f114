// Imports loops and branches: each becomes one node that has its sub-networks as sub-graphs.
//
// The parameters of a sub-network are Variables of the network, whose values the node captures: they are inputs of the
// node and of the sub-graph. So are the random state and constants. What is wrong in a sub-network is reported where it
// is written, with the layer that runs it.
#pragma once

#include <absl/status/statusor.h>

#include <vector>

#include "engine/compile/import/layers.h"

namespace snug::core {

// Returns what the layer puts out; nullopt when errors in its sub-networks were reported. Any other error is about the
// layer itself, or a part of it (PartOf).
absl::StatusOr<LayersImporter::Outputs> ImportControl(ImportState& state, const proto::Layer& layer,
                                                      std::vector<ValueId> inputs, const SourceLoc& loc);

}  // namespace snug::core
