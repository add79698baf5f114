// Sub-networks: the blocks that loops run and branches take, which stay whole instead of being expanded where they are
// used.
#pragma once

#include <string>
#include <vector>

#include "proto/loader/error_list.h"
#include "proto/loader/expand.h"
#include "proto/loader/scope.h"
#include "proto/source_map.h"

namespace snug::proto {
class Layer;
class Network;
}  // namespace snug::proto

namespace snug::core::loader {

// A layer's wish for the sub-network of that name.
struct WantedBody {
  std::string name;
  SourcePos pos;
};

// Adds what a layer runs or takes, if it is a loop or a branch.
void FindBodies(const proto::Layer& layer, const SourceNode& place, std::vector<WantedBody>* wanted);

bool IsSubnetwork(const proto::Network& network, const std::string& name);
// Returns the message that neither a block nor a sub-network has the name.
std::string NoSuchBody(const std::string& name, const proto::Network& network, const Blocks& blocks);

// What a loop or branch calls the block's outputs: as they are written there, or else as the values themselves.
std::vector<std::string> OutputNames(const BlockDefinition& block, const std::vector<std::string>& values,
                                     const Scope& scope, ErrorList* errors);

// Makes a sub-network of the block, of which the network's layers from number `first` on were expanded.
void AddSubnetwork(const BlockDefinition& block, const std::vector<std::string>& output_names,
                   const std::vector<std::string>& values, int first, proto::Network* network, SourceMap* map);

}  // namespace snug::core::loader
