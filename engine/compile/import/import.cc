#include "engine/compile/import/import.h"

#include <absl/strings/str_cat.h>
#include <absl/strings/str_join.h>

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "engine/base/status.h"
#include "engine/compile/defaults.h"
#include "engine/compile/import/layers.h"
#include "proto/data_type.h"
#include "proto/network.pb.h"
#include "proto/source_map.h"

namespace snug::core {
namespace {

constexpr size_t kMaxErrors = 20;

class Importer {
 public:
  Importer(const proto::Network& network, const SourceMap& locations, const OpRegistry& registry,
           const ImportOptions& options)
      : network_(network), locations_(locations), registry_(registry), options_(options) {}

  absl::StatusOr<Imported> Run() {
    result_.graph.name = network_.name();
    result_.batch = ChooseBatch(BatchFor::kStep, options_.batch, network_, network_.training());
    if (result_.batch < 1) {
      const bool of_training = network_.training().has_batch();
      Error(of_training ? locations_.OptionLoc("training.batch") : locations_.NetworkLoc("batch"),
            absl::StrCat(of_training ? "training.batch" : "batch", ": expected at least 1, found ", result_.batch));
    }
    SNUG_RETURN_IF_ERROR(DivideBatch());
    ImportState state{.builder = GraphBuilder(registry_, &result_.graph),
                      .result = &result_,
                      .precision = options_.precision,
                      .stochastic_rounding = options_.stochastic_rounding,
                      .training = options_.training,
                      .in_micro_batches = options_.micro_batches > 1,
                      .network = &network_,
                      .locations = &locations_,
                      .errors = &errors_,
                      .bodies = &bodies_};
    LayersImporter layers(state, network_.layer(), locations_);
    for (int i = 0; i < network_.input_size(); ++i) ImportInput(i, state, layers);
    layers.Run();
    for (int i = 0; i < network_.layer_size(); ++i) ImportNextState(i, layers);
    ImportObjectives(layers);
    ImportOutputs(layers);
    if (options_.training) RandomStateOf(result_);
    if (errors_.empty()) return std::move(result_);
    if (errors_.size() > kMaxErrors) {
      const size_t more = errors_.size() - kMaxErrors;
      errors_.resize(kMaxErrors);
      errors_.push_back(absl::StrCat("... and ", more, " more errors"));
    }
    return absl::InvalidArgumentError(absl::StrJoin(errors_, "\n"));
  }

 private:
  absl::Status DivideBatch() {
    const int64_t parts = options_.micro_batches;
    if (parts < 1 || result_.batch % parts != 0) {
      return absl::InvalidArgumentError(absl::StrCat("accumulate: expected a divisor of the batch, ", result_.batch,
                                                     " samples, found ", parts, ": micro-batches are of one size"));
    }
    result_.batch /= parts;
    return absl::OkStatus();
  }

  void Error(const SourceLoc& loc, absl::string_view message) {
    errors_.emplace_back(At(loc, absl::InvalidArgumentError(message)).message());
  }

  void ImportInput(int i, ImportState& state, LayersImporter& layers) {
    const proto::Input& input = network_.input(i);
    std::vector<int64_t> dims;
    if (!input.no_batch()) dims.push_back(result_.batch);
    dims.insert(dims.end(), input.shape().dim().begin(), input.shape().dim().end());
    const absl::StatusOr<Shape> shape = MakeShape(dims);
    if (!shape.ok()) {
      Error(locations_.InputLoc(i), absl::StrCat("input \"", input.name(), "\": ", shape.status().message()));
      layers.Define(input.name(), std::nullopt);
      return;
    }
    if (layers.IsTaken(input.name())) {
      Error(locations_.InputLoc(i), absl::StrCat("input \"", input.name(), "\": the name is taken"));
      return;
    }
    const ValueId value = result_.graph.AddInput(
        input.name(), {proto::ToDType(input.dtype(), options_.precision), *shape, {}}, input.max_value());
    if (!input.no_batch()) state.batched.insert(value);
    layers.Define(input.name(), std::vector<ValueId>{value});
  }

  // A state layer becomes, after the step, what the layer puts out that it names, which may stand after it.
  void ImportNextState(int i, LayersImporter& layers) {
    const proto::Layer& layer = network_.layer(i);
    if (!layer.has_state() || !layer.state().has_next()) return;
    const SourceLoc loc = locations_.LayerOptionLoc(i, "next", 0);
    const std::optional<ValueId> next = layers.Resolve(layer.state().next(), loc);
    const LayersImporter::Outputs& state = layers.OutputsOf(layer.name());
    if (!next.has_value() || !state.has_value()) return;
    const ValueType &is = result_.graph.type((*state)[0]), &becomes = result_.graph.type(*next);
    const auto error = [&](absl::string_view message) {
      Error(loc, absl::StrCat("layer \"", layer.name(), "\" (state): option \"next\": ", message));
    };
    if (is.shape != becomes.shape || !IsFloating(becomes.dtype)) {
      return error(absl::StrCat("expected a value of the state's shape, ", is.ToString(), "; \"", layer.state().next(),
                                "\" is ", becomes.ToString()));
    }
    if (!options_.training) return;
    if (options_.micro_batches > 1) {
      return error(absl::StrCat("a step of ", options_.micro_batches,
                                " micro-batches has other samples in each, and a state has a row for each sample: "
                                "leave accumulate out"));
    }
    // It belongs to the training, as the step counter does: no program that evaluates has it.
    result_.graph.variable(result_.graph.value((*state)[0]).variable).role = VariableRole::kScalar;
    result_.statistic_updates.push_back({.name = absl::StrCat(layer.name(), "/store"),
                                         .op = "store",
                                         .inputs = {(*state)[0], *next},
                                         .loc = loc,
                                         .phase = Phase::kUpdate});
  }

  bool IsInput(ValueId value) const {
    const auto& inputs = result_.graph.inputs();
    return std::find(inputs.begin(), inputs.end(), value) != inputs.end();
  }

  void ImportObjectives(LayersImporter& layers) {
    std::set<ValueId> seen;
    for (int i = 0; i < network_.objective_size(); ++i) {
      const std::string& name = network_.objective(i);
      const std::optional<ValueId> value = layers.Resolve(name, locations_.ObjectiveLoc(i));
      if (!value.has_value()) continue;
      if (!seen.insert(*value).second) {
        Error(locations_.ObjectiveLoc(i), absl::StrCat("objective \"", name, "\" is named twice"));
      } else if (IsInput(*value)) {
        Error(locations_.ObjectiveLoc(i),
              absl::StrCat("objective \"", name,
                           "\" is an input of the network, which training cannot change: name the loss layer"));
      } else if (!IsFloating(result_.graph.type(*value).dtype)) {
        Error(locations_.ObjectiveLoc(i),
              absl::StrCat("objective \"", name, "\": expected floating-point values, found ",
                           result_.graph.type(*value).ToString()));
      } else {
        result_.graph.objectives.push_back(*value);
        result_.graph.outputs.push_back({name, *value});
      }
    }
    if (options_.training && network_.objective_size() == 0) {
      Error(locations_.NetworkLoc(""),
            "the network has no objective, so there is nothing to train: name the loss layer by `objective: \"...\"`");
    }
  }

  // Adds the outputs that the file names or, if it names none, every value that nobody reads.
  void ImportOutputs(LayersImporter& layers) {
    for (int i = 0; i < network_.output_size(); ++i) {
      const std::optional<ValueId> value = layers.Resolve(network_.output(i), locations_.OutputLoc(i));
      if (value.has_value()) result_.graph.outputs.push_back({network_.output(i), *value});
    }
    if (!result_.graph.outputs.empty() || !errors_.empty()) return;
    const auto readers = ReadersOf(result_.graph);
    for (const proto::Layer& layer : network_.layer()) {
      for (const ValueId value : *layers.OutputsOf(layer.name())) {
        if (value.valid() && readers[static_cast<size_t>(value.index)].empty())
          result_.graph.outputs.push_back({result_.graph.value(value).name, value});
      }
    }
  }

  const proto::Network& network_;
  const SourceMap& locations_;
  const OpRegistry& registry_;
  const ImportOptions& options_;
  Imported result_;
  std::vector<std::string> errors_;
  int bodies_ = 0;
};

}  // namespace

absl::StatusOr<Imported> Import(const proto::Network& network, const SourceMap& locations, const OpRegistry& registry,
                                const ImportOptions& options) {
  return Importer(network, locations, registry, options).Run();
}

}  // namespace snug::core
