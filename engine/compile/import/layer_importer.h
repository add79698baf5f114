// The importer's LayerContext: it turns one layer of the model file into parameters and nodes.
#pragma once

#include <absl/status/statusor.h>

#include <map>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "engine/compile/import/import.h"
#include "engine/graph/graph.h"
#include "ops/layer_context.h"

namespace snug::proto {
class Initializer;
class Layer;
class Network;
class Param;
}  // namespace snug::proto

namespace snug::core {

// What all layers of one graph share: those of the network, or those of a sub-network, which is a graph of its own.
struct ImportState {
  GraphBuilder builder;  // of that graph
  Imported* result;      // the network's, which has all Variables
  DType precision;
  bool stochastic_rounding;  // parameters are kept in `precision`, which is bfloat16
  bool training;
  bool in_micro_batches;
  const proto::Network* network;
  const SourceMap* locations;  // of the network
  std::vector<std::string>* errors;
  int* bodies;                               // how many sub-networks were imported so far, in all graphs of the network
  std::unordered_set<ValueId> batched = {};  // inputs of this graph that have the batch as axis 0
  std::vector<bool> per_sample = {};         // by value, as far as IsPerSample has looked
  std::unordered_map<ValueId, ValueId> casts = {};  // Variable -> its value in the precision that ports want of it

  // These are for sub-networks.
  ImportState* outer = nullptr;         // around this one
  std::string prefix = {};              // put before the names of Variables: "rnn."
  std::string place = {};               // says where the sub-network is used, for errors
  std::vector<std::string> names = {};  // of this sub-network and those around it, outermost first
  // Values of the graph around for which inputs of this graph stand, in their order: after those that the sub-network
  // has by its definition.
  std::vector<ValueId> captured = {};
  std::unordered_map<ValueId, ValueId> input_of = {};
  std::unordered_set<ValueId> of_variables = {};  // inputs of this graph that are Variables' contents

  Graph& graph() { return builder.graph(); }
  void Error(const SourceLoc& loc, absl::string_view message);
  // Returns what stands in this graph for a value of the network's graph, which is captured through all graphs between.
  ValueId Reach(ValueId value);
  // Returns what stands here for a value of the graph around, which is captured if it was not.
  ValueId ReachAround(ValueId around);
  bool IsOfVariable(ValueId value);
  // Tells whether a value depends on the samples, so that its axis 0 is the batch: a Variable's content does not, even
  // where it is as long.
  bool IsPerSample(ValueId value);
};

class LayerImporter final : public LayerContext {
 public:
  LayerImporter(ImportState& state, const proto::Layer& layer, Options options, std::vector<ValueId> inputs,
                SourceLoc loc);
  ~LayerImporter() = default;

  int num_inputs() const override { return static_cast<int>(inputs_.size()); }
  ValueId input(int i) const override { return inputs_[static_cast<size_t>(i)]; }
  const Options& options_handle() const override { return options_; }
  bool training() const override { return state_.training; }
  DType floating() const override { return state_.precision; }
  ValueId Parameter(ParameterSpec spec) override;
  ValueId Statistic(absl::string_view name, const Shape& shape, double initial) override;
  ValueId ConstantValue(absl::string_view name, DType dtype, const Shape& shape, std::vector<double> values) override;
  ValueId RandomState() override;
  void Update(absl::string_view op, std::vector<ValueId> inputs, Options options) override;
  void SetOutput(int i, ValueId value) override;

  // Runs the op's layer hook, or adds its one node. Then checks that every `param` entry names a parameter.
  absl::Status Run(const OpDef& op);
  const std::vector<ValueId>& outputs() const { return outputs_; }

 private:
  NodeSpec Describe(absl::string_view op, absl::string_view suffix) override;
  void AdaptInputs(const OpDef& op, std::vector<ValueId>* inputs) override;
  std::string VariableName(absl::string_view name) const;
  DType StateType() const { return state_.precision == DType::kFloat64 ? DType::kFloat64 : DType::kFloat32; }
  DType ParameterType(const ParameterSpec& spec) const;
  // Adds a Variable to the network, and returns what stands for its content here. Fails when the name is taken.
  ValueId Add(Variable variable);
  const proto::Param* Override(const std::string& name);
  ValueId Tied(const ParameterSpec& spec, const proto::Param& param);
  // Returns what the parameter's Variable holds, as a value through which no gradient flows back.
  ValueId Untrained(ValueId value, absl::string_view parameter);

  ImportState& state_;
  const proto::Layer& layer_;
  Options options_;
  std::vector<ValueId> inputs_;
  std::vector<ValueId> outputs_;
  SourceLoc loc_;
  std::vector<std::string> parameter_names_;
  std::vector<ValueId> untrained_;  // of this layer: cast where a port wants another precision, as Variables are
  bool adapts_inputs_ = true;
  const OpDef* op_ = nullptr;  // the layer's, while it runs
};

// Return the values of the random states' Variables, which are made at first use.
ValueId RandomStateOf(Imported& imported);
ValueId DrawStateOf(Imported& imported);

// Turns what the model file and the op say about a parameter's first content into the Graph's Initializer. Fans and
// gains are resolved here, so that the run-time only sees plain distributions. `chosen` may be null, which stands for
// the op's default.
absl::StatusOr<Initializer> ResolveInitializer(const ParameterSpec& spec, const proto::Initializer* chosen);

}  // namespace snug::core
