// A sub-network on its way to becoming a sub-graph of a loop or branch.
#pragma once

#include <absl/status/statusor.h>

#include <memory>
#include <string>
#include <vector>

#include "engine/compile/import/layers.h"

namespace snug::proto {
class Subnetwork;
}

namespace snug::core {

class SubnetworkImporter {
 public:
  // The sub-network `name`, which is entry `k` of the option "body" of `layer`. Fails when there is none of that name,
  // or when it contains itself. `scope` comes before the names of its Variables.
  static absl::StatusOr<std::unique_ptr<SubnetworkImporter>> Find(ImportState& around, const proto::Layer& layer,
                                                                  const std::string& name, int k, std::string scope,
                                                                  const SourceLoc& loc);

  // Returns the number of the input or output of that name. Fails, about entry `k` of the layer's `option`, when there
  // is none.
  absl::StatusOr<int> InputNumber(absl::string_view option, int k, const std::string& name) const;
  absl::StatusOr<int> OutputNumber(absl::string_view option, int k, const std::string& name) const;
  const std::string& name() const;
  int num_inputs() const;
  int num_outputs() const;
  const std::string& InputName(int i) const;
  const std::string& OutputName(int i) const;

  // Says what input i is. Inputs are added in their order.
  void AddInput(const ValueType& type, int64_t max_value, bool of_variable, bool per_sample);
  // Makes an input stand for a value of the graph around, if none does yet.
  void Capture(ValueId around);
  // Imports the layers. Returns false when errors were reported.
  bool Run();

  const ValueType& OutputType(int i) const { return graph_->type(outputs_[static_cast<size_t>(i)]); }
  const std::vector<ValueId>& captured() const { return state_.captured; }
  std::shared_ptr<const Graph> graph() const { return graph_; }

 private:
  SubnetworkImporter(ImportState& around, const proto::Layer& layer, int number, std::string scope,
                     const SourceLoc& loc);

  const proto::Subnetwork& subnetwork_;
  SourceMap locations_;
  std::shared_ptr<Graph> graph_ = std::make_shared<Graph>();
  ImportState state_;
  LayersImporter layers_;
  std::vector<ValueId> outputs_;
};

}  // namespace snug::core
