// The importer's LayerContext: it turns one layer of the model file into parameters and nodes.
#pragma once

#include <absl/status/statusor.h>

#include <map>
#include <string>
#include <unordered_map>
#include <vector>

#include "engine/compile/import/import.h"
#include "engine/graph/graph.h"
#include "ops/layer_context.h"

namespace snug::proto {
class Layer;
class Param;
}  // namespace snug::proto

namespace snug::proto {
class Initializer;
}

namespace snug::core {

// What all layers of one import share.
struct ImportState {
  GraphBuilder builder;
  Imported* result;
  DType precision;
  bool training;
  bool in_micro_batches;
  std::unordered_map<ValueId, ValueId> casts;  // float32 Variable -> its value in the network's precision
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
  const proto::Param* Override(const std::string& name);
  ValueId Tied(const ParameterSpec& spec, const proto::Param& param);
  // Returns what the parameter's Variable holds, as a value through which no gradient flows back.
  ValueId Untrained(const Variable& variable, absl::string_view parameter);

  ImportState& state_;
  const proto::Layer& layer_;
  Options options_;
  std::vector<ValueId> inputs_;
  std::vector<ValueId> outputs_;
  SourceLoc loc_;
  std::vector<std::string> parameter_names_;
  std::vector<ValueId> untrained_;  // of this layer: cast where a port wants bfloat16, as Variables are
  bool adapts_inputs_ = true;
};

// Return the values of the random states' Variables, which are made at first use.
ValueId RandomStateOf(Imported& imported);
ValueId DrawStateOf(Imported& imported);

// Turns what the model file and the op say about a parameter's first content into the Graph's Initializer. Fans and
// gains are resolved here, so that the run-time only sees plain distributions. `chosen` may be null, which stands for
// the op's default.
absl::StatusOr<Initializer> ResolveInitializer(const ParameterSpec& spec, const proto::Initializer* chosen);

}  // namespace snug::core
