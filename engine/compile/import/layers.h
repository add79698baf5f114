// Imports a list of layers: the network's own, or those of a sub-network.
#pragma once

#include <google/protobuf/repeated_field.h>

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "engine/compile/import/layer_importer.h"
#include "proto/source_map.h"

namespace snug::proto {
class Layer;
}

namespace google::protobuf {
class Message;
}

namespace snug::core {

class LayersImporter {
 public:
  using Layers = google::protobuf::RepeatedPtrField<proto::Layer>;
  // What an input or a layer puts out; nullopt: it has failed, and that is reported.
  using Outputs = std::optional<std::vector<ValueId>>;

  // The layers go into state's graph. `locations` has the places of these layers.
  LayersImporter(ImportState& state, const Layers& layers, const SourceMap& locations)
      : state_(state), layers_(layers), locations_(locations) {}

  bool IsTaken(const std::string& name) const { return values_.contains(name); }
  void Define(const std::string& name, Outputs outputs) { values_[name] = std::move(outputs); }
  const Outputs& OutputsOf(const std::string& name) const { return values_.at(name); }

  // Imports all layers; what is wrong with them goes to the state's errors.
  void Run();
  // Resolves a reference; "split:1" is the second output of "split". Returns nothing when an error was reported, or
  // when what it names has failed.
  std::optional<ValueId> Resolve(const std::string& reference, const SourceLoc& loc);

 private:
  void Import(int i);
  Outputs ImportPlain(int i, const OpDef& op, const google::protobuf::Message& options, std::vector<ValueId> inputs);
  void LayerError(const SourceLoc& loc, int i, const OpDef& op, absl::string_view message);
  bool CheckNumbers(int i, const OpDef& op, const google::protobuf::Message& options);
  bool CheckParams(int i, const OpDef& op);
  SourceLoc LocationOf(int layer, const absl::Status& status) const;

  ImportState& state_;
  const Layers& layers_;
  const SourceMap& locations_;
  std::map<std::string, Outputs> values_;
};

}  // namespace snug::core
