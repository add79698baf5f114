// What a network's layers say, as a training keeps it in its checkpoints: a rate of dropout or an activation changes
// the numbers of a training that goes on, and no parameter tells of it.
#pragma once

#include <map>
#include <string>

namespace snug::proto {
class Network;
}

namespace snug::core::cli {

// By "layer NAME" and "block NAME", in the words of a model file. A default that is said is left out, and so is what
// parameters begin with.
std::map<std::string, std::string> WordsOfLayers(const proto::Network& network);
bool IsOfLayers(const std::string& option);

}  // namespace snug::core::cli
