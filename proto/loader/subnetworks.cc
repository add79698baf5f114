#include "proto/loader/subnetworks.h"

#include <absl/strings/str_cat.h>

#include <algorithm>
#include <iterator>
#include <optional>
#include <utility>

#include "engine/base/text/suggest.h"
#include "proto/network.pb.h"

namespace snug::core::loader {

void FindBodies(const proto::Layer& layer, const SourceNode& place, std::vector<WantedBody>* wanted) {
  const auto add = [&](const std::string& body, const char* op, int k) {
    const SourceNode* options = place.Find(op);
    const SourceNode* name = options == nullptr ? nullptr : options->Find("body", k);
    wanted->push_back({body, (name != nullptr ? *name : place).pos});
  };
  if (layer.loop().has_body()) add(layer.loop().body(), "loop", 0);
  for (int k = 0; k < layer.branch().body_size(); ++k) add(layer.branch().body(k), "branch", k);
}

bool IsSubnetwork(const proto::Network& network, const std::string& name) {
  return std::any_of(network.subnetwork().begin(), network.subnetwork().end(),
                     [&](const proto::Subnetwork& subnetwork) { return subnetwork.name() == name; });
}

std::string NoSuchBody(const std::string& name, const proto::Network& network, const Blocks& blocks) {
  Suggester suggester(name);
  for (const auto& [block, definition] : blocks) suggester.Consider(block);
  for (const proto::Subnetwork& subnetwork : network.subnetwork()) suggester.Consider(subnetwork.name());
  return absl::StrCat("body: there is no block \"", name.substr(0, 80), "\"", suggester.Question());
}

std::vector<std::string> OutputNames(const BlockDefinition& block, const std::vector<std::string>& values,
                                     const Scope& scope, ErrorList* errors) {
  std::vector<std::string> names;
  const ErrorList::Mute mute(errors);  // who looked up the values has reported what is wrong with them
  for (const Value* output : block.outputs) {
    const std::optional<Scalar> scalar = Evaluate(*output, scope, errors);
    if (!scalar) continue;
    if (scalar->kind != Scalar::Kind::kList) {
      names.push_back(scalar->text);
      continue;
    }
    for (const Scalar& item : scalar->items) names.push_back(item.text);
  }
  return names.size() == values.size() ? names : values;
}

void AddSubnetwork(const BlockDefinition& block, const std::vector<std::string>& output_names,
                   const std::vector<std::string>& values, int first, proto::Network* network, SourceMap* map) {
  proto::Subnetwork& subnetwork = *network->add_subnetwork();
  subnetwork.set_name(block.name);
  for (const std::string& input : block.inputs) subnetwork.add_input(input);
  auto* layers = network->mutable_layer();
  std::vector<proto::Layer*> moved(static_cast<size_t>(layers->size() - first));
  layers->ExtractSubrange(first, static_cast<int>(moved.size()), moved.data());
  for (proto::Layer* layer : moved) subnetwork.mutable_layer()->AddAllocated(layer);
  for (size_t i = 0; i < values.size(); ++i) {
    proto::SubnetworkOutput& output = *subnetwork.add_output();
    output.set_name(output_names[i]);
    if (output_names[i] != values[i]) output.set_value(values[i]);
  }
  SourceNode place{proto::Network::descriptor()->FindFieldByName("subnetwork"), block.pos, {}};
  const auto begin = map->layers.begin() + first;
  std::move(begin, map->layers.end(), std::back_inserter(place.children));
  map->layers.erase(begin, map->layers.end());
  map->network.children.push_back(std::move(place));
}

}  // namespace snug::core::loader
