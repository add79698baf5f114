#include "engine/compile/import/import.h"

#include <absl/strings/numbers.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/str_join.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "engine/base/error_part.h"
#include "engine/base/status.h"
#include "engine/compile/defaults.h"
#include "engine/compile/import/layer_importer.h"
#include "proto/data_type.h"
#include "proto/network.pb.h"
#include "proto/odd_numbers.h"
#include "proto/options.h"
#include "proto/source_map.h"

namespace snug::core {
namespace {

constexpr size_t kMaxErrors = 20;

// The op of a layer: a field of the oneof, or an extension.
struct LayerOp {
  std::string name;
  const google::protobuf::Message* options = nullptr;
};

LayerOp OpOf(const proto::Layer& layer) {
  const google::protobuf::Reflection* reflection = layer.GetReflection();
  std::vector<const google::protobuf::FieldDescriptor*> fields;
  reflection->ListFields(layer, &fields);
  for (const google::protobuf::FieldDescriptor* field : fields) {
    const bool is_op =
        field->is_extension() || (field->containing_oneof() != nullptr && field->containing_oneof()->name() == "op");
    if (!is_op || field->is_repeated() || field->message_type() == nullptr) continue;
    return {field->is_extension() ? std::string(field->full_name()) : std::string(field->name()),
            &reflection->GetMessage(layer, field)};
  }
  return {};
}

class Importer {
 public:
  Importer(const proto::Network& network, const SourceMap& locations, const OpRegistry& registry,
           const ImportOptions& options)
      : network_(network), locations_(locations), registry_(registry), options_(options) {}

  absl::StatusOr<Imported> Run() {
    result_.graph.name = network_.name();
    result_.batch = ChooseBatch(BatchFor::kStep, options_.batch, network_, network_.training());
    if (result_.batch < 1)
      Error(locations_.NetworkLoc("batch"), absl::StrCat("batch: expected at least 1, found ", result_.batch));
    SNUG_RETURN_IF_ERROR(DivideBatch());
    ImportState state{.builder = GraphBuilder(registry_, &result_.graph),
                      .result = &result_,
                      .precision = options_.precision,
                      .training = options_.training,
                      .in_micro_batches = options_.micro_batches > 1,
                      .casts = {}};
    for (int i = 0; i < network_.input_size(); ++i) ImportInput(i);
    for (int i = 0; i < network_.layer_size(); ++i) ImportLayer(state, i);
    ImportObjectives();
    ImportOutputs();
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

  void ImportInput(int i) {
    const proto::Input& input = network_.input(i);
    std::vector<int64_t> dims;
    if (!input.no_batch()) dims.push_back(result_.batch);
    dims.insert(dims.end(), input.shape().dim().begin(), input.shape().dim().end());
    const absl::StatusOr<Shape> shape = MakeShape(dims);
    if (!shape.ok()) {
      Error(locations_.InputLoc(i), absl::StrCat("input \"", input.name(), "\": ", shape.status().message()));
      values_[input.name()] = std::nullopt;
      return;
    }
    if (values_.contains(input.name())) {
      Error(locations_.InputLoc(i), absl::StrCat("input \"", input.name(), "\": the name is taken"));
      return;
    }
    values_[input.name()] = {result_.graph.AddInput(
        input.name(), {proto::ToDType(input.dtype(), options_.precision), *shape, {}}, input.max_value())};
  }

  // Resolves a reference; "split:1" is the second output of "split". Returns nothing when an error was reported, or
  // when what it names has failed.
  std::optional<ValueId> Resolve(const std::string& reference, const SourceLoc& loc) {
    std::string name = reference;
    size_t index = 0;
    if (!values_.contains(name)) {
      const size_t colon = reference.rfind(':');
      if (colon != std::string::npos && absl::SimpleAtoi(reference.substr(colon + 1), &index))
        name = reference.substr(0, colon);
    }
    const auto it = values_.find(name);
    if (it == values_.end()) {
      Error(loc, absl::StrCat("\"", reference, "\" names no input and no layer before this one"));
      return std::nullopt;
    }
    if (!it->second.has_value()) return std::nullopt;
    const std::vector<ValueId>& outputs = *it->second;
    if (index >= outputs.size()) {
      Error(loc, absl::StrCat("\"", reference, "\": \"", name, "\" has ", outputs.size(),
                              outputs.size() == 1 ? " output" : " outputs, counted from 0"));
      return std::nullopt;
    }
    return outputs[index];
  }

  void ImportLayer(ImportState& state, int i) {
    const proto::Layer& layer = network_.layer(i);
    if (values_.contains(layer.name())) {
      Error(locations_.LayerLoc(i), absl::StrCat("layer \"", layer.name(), "\": the name is taken"));
      return;
    }
    auto& outputs = values_[layer.name()];  // stays empty, which means "failed", unless all goes well
    std::vector<ValueId> inputs;
    for (int k = 0; k < layer.input_size(); ++k) {
      const std::optional<ValueId> value = Resolve(layer.input(k), locations_.LayerInputLoc(i, k));
      if (value.has_value()) inputs.push_back(*value);
    }
    const LayerOp layer_op = OpOf(layer);
    const OpDef* op = layer_op.options == nullptr ? nullptr : registry_.Find(layer_op.name);
    if (op == nullptr) {
      Error(
          locations_.LayerLoc(i),
          absl::StrCat("layer \"", layer.name(), "\": ",
                       layer_op.options == nullptr ? "has no op" : absl::StrCat("unknown op \"", layer_op.name, "\"")));
      return;
    }
    if (!CheckNumbers(i, *op, *layer_op.options) || !CheckParams(i, *op)) return;
    if (inputs.size() != static_cast<size_t>(layer.input_size())) return;
    LayerImporter importer(state, layer, proto::MakeOptions(*layer_op.options), std::move(inputs),
                           locations_.LayerLoc(i));
    const absl::Status status = importer.Run(*op);
    if (!status.ok()) return LayerError(LocationOf(i, status), i, *op, status.message());
    outputs = importer.outputs();
  }

  void LayerError(const SourceLoc& loc, int i, const OpDef& op, absl::string_view message) {
    Error(loc, absl::StrCat("layer \"", network_.layer(i).name(), "\" (", op.name, "): ", message));
  }

  // Returns false when an error was reported.
  bool CheckNumbers(int i, const OpDef& op, const google::protobuf::Message& options) {
    if (const auto odd = proto::FindOddNumber(options)) {
      LayerError(locations_.LayerOptionLoc(i, odd->field, odd->index), i, op,
                 absl::StrCat("option \"", odd->field, "\": ", odd->message));
      return false;
    }
    for (int k = 0; k < network_.layer(i).param_size(); ++k) {
      const auto odd = proto::FindOddNumber(network_.layer(i).param(k));
      if (!odd) continue;
      LayerError(locations_.ParamLoc(i, k, odd->field), i, op,
                 absl::StrCat("param \"", network_.layer(i).param(k).name(), "\": ", odd->field, ": ", odd->message));
      return false;
    }
    return true;
  }

  // Only the first of two entries for one parameter would count, so that is an error. Returns false when one was
  // reported.
  bool CheckParams(int i, const OpDef& op) {
    std::map<std::string, int> first;
    for (int k = 0; k < network_.layer(i).param_size(); ++k) {
      const std::string& name = network_.layer(i).param(k).name();
      const auto [it, added] = first.emplace(name, k);
      if (added) continue;
      const SourceLoc loc = locations_.ParamLoc(i, k);
      const SourceLoc before = locations_.ParamLoc(i, it->second);
      LayerError(loc, i, op,
                 absl::StrCat("param \"", name, "\" is given twice",
                              before.line > 0 ? absl::StrCat(": first at ", before.ToString()) : ""));
      return false;
    }
    return true;
  }

  SourceLoc LocationOf(int layer, const absl::Status& status) const {
    const std::optional<ErrorPart> part = PartOf(status);
    if (!part.has_value()) return locations_.LayerLoc(layer);
    switch (part->kind) {
      case ErrorPart::Kind::kOption:
        return locations_.LayerOptionLoc(layer, part->name);
      case ErrorPart::Kind::kInput:
        // The index counts inputs of the node. Those beyond the layer's own are its parameters.
        if (part->index < network_.layer(layer).input_size()) return locations_.LayerInputLoc(layer, part->index);
        break;
      case ErrorPart::Kind::kParameter:
        for (int k = 0; k < network_.layer(layer).param_size(); ++k) {
          if (network_.layer(layer).param(k).name() == part->name) return locations_.ParamLoc(layer, k);
        }
    }
    return locations_.LayerLoc(layer);
  }

  bool IsInput(ValueId value) const {
    const auto& inputs = result_.graph.inputs();
    return std::find(inputs.begin(), inputs.end(), value) != inputs.end();
  }

  void ImportObjectives() {
    std::set<ValueId> seen;
    for (int i = 0; i < network_.objective_size(); ++i) {
      const std::string& name = network_.objective(i);
      const std::optional<ValueId> value = Resolve(name, locations_.ObjectiveLoc(i));
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
  void ImportOutputs() {
    for (int i = 0; i < network_.output_size(); ++i) {
      const std::optional<ValueId> value = Resolve(network_.output(i), locations_.OutputLoc(i));
      if (value.has_value()) result_.graph.outputs.push_back({network_.output(i), *value});
    }
    if (!result_.graph.outputs.empty() || !errors_.empty()) return;
    const auto readers = ReadersOf(result_.graph);
    for (const proto::Layer& layer : network_.layer()) {
      for (const ValueId value : *values_[layer.name()]) {
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
  std::map<std::string, std::optional<std::vector<ValueId>>> values_;  // outputs of inputs and layers; nullopt: it has
                                                                       // failed
  std::vector<std::string> errors_;
};

}  // namespace

absl::StatusOr<Imported> Import(const proto::Network& network, const SourceMap& locations, const OpRegistry& registry,
                                const ImportOptions& options) {
  return Importer(network, locations, registry, options).Run();
}

}  // namespace snug::core
