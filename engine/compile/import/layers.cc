#include "engine/compile/import/layers.h"

#include <absl/strings/numbers.h>
#include <absl/strings/str_cat.h>

#include <utility>

#include "engine/base/error_part.h"
#include "engine/base/status.h"
#include "engine/compile/import/control_flow.h"
#include "proto/network.pb.h"
#include "proto/odd_numbers.h"
#include "proto/options.h"

namespace snug::core {
namespace {

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

}  // namespace

std::optional<ValueId> LayersImporter::Resolve(const std::string& reference, const SourceLoc& loc) {
  std::string name = reference;
  size_t index = 0;
  if (!values_.contains(name)) {
    const size_t colon = reference.rfind(':');
    if (colon != std::string::npos && absl::SimpleAtoi(reference.substr(colon + 1), &index))
      name = reference.substr(0, colon);
  }
  const auto it = values_.find(name);
  if (it == values_.end()) {
    state_.Error(loc, absl::StrCat("\"", reference, "\" names no input and no layer before this one"));
    return std::nullopt;
  }
  if (!it->second.has_value()) return std::nullopt;
  const std::vector<ValueId>& outputs = *it->second;
  if (index >= outputs.size()) {
    state_.Error(loc, absl::StrCat("\"", reference, "\": \"", name, "\" has ", outputs.size(),
                                   outputs.size() == 1 ? " output" : " outputs, counted from 0"));
    return std::nullopt;
  }
  return outputs[index];
}

void LayersImporter::Run() {
  for (int i = 0; i < layers_.size(); ++i) Import(i);
}

void LayersImporter::Import(int i) {
  const proto::Layer& layer = layers_.Get(i);
  if (values_.contains(layer.name())) {
    state_.Error(locations_.LayerLoc(i), absl::StrCat("layer \"", layer.name(), "\": the name is taken"));
    return;
  }
  auto& outputs = values_[layer.name()];  // stays empty, which means "failed", unless all goes well
  std::vector<ValueId> inputs;
  for (int k = 0; k < layer.input_size(); ++k) {
    const std::optional<ValueId> value = Resolve(layer.input(k), locations_.LayerInputLoc(i, k));
    if (value.has_value()) inputs.push_back(*value);
  }
  const LayerOp layer_op = OpOf(layer);
  const OpDef* op = layer_op.options == nullptr ? nullptr : state_.builder.registry().Find(layer_op.name);
  if (op == nullptr) {
    state_.Error(
        locations_.LayerLoc(i),
        absl::StrCat("layer \"", layer.name(), "\": ",
                     layer_op.options == nullptr ? "has no op" : absl::StrCat("unknown op \"", layer_op.name, "\"")));
    return;
  }
  if (!CheckNumbers(i, *op, *layer_op.options) || !CheckParams(i, *op)) return;
  if (inputs.size() != static_cast<size_t>(layer.input_size())) return;
  if (layer.has_state() && layer.state().has_next() && state_.outer != nullptr) {
    return LayerError(locations_.LayerOptionLoc(i, "next", 0), i, *op,
                      "option \"next\": what is kept from step to step stands outside of loops and branches: put the "
                      "layer there, and let the body carry its value");
  }
  if (!op->traits.control) {
    outputs = ImportPlain(i, *op, *layer_op.options, std::move(inputs));
    return;
  }
  absl::StatusOr<Outputs> imported = ImportControl(state_, layer, std::move(inputs), locations_.LayerLoc(i));
  if (!imported.ok()) return LayerError(LocationOf(i, imported.status()), i, *op, imported.status().message());
  outputs = *std::move(imported);
}

LayersImporter::Outputs LayersImporter::ImportPlain(int i, const OpDef& op, const google::protobuf::Message& options,
                                                    std::vector<ValueId> inputs) {
  LayerImporter importer(state_, layers_.Get(i), proto::MakeOptions(options), std::move(inputs),
                         locations_.LayerLoc(i));
  const absl::Status status = importer.Run(op);
  if (status.ok()) return importer.outputs();
  LayerError(LocationOf(i, status), i, op, status.message());
  return std::nullopt;
}

void LayersImporter::LayerError(const SourceLoc& loc, int i, const OpDef& op, absl::string_view message) {
  state_.Error(loc, absl::StrCat("layer \"", layers_.Get(i).name(), "\" (", op.name, "): ", message));
}

// Returns false when an error was reported.
bool LayersImporter::CheckNumbers(int i, const OpDef& op, const google::protobuf::Message& options) {
  if (const auto odd = proto::FindOddNumber(options)) {
    LayerError(locations_.LayerOptionLoc(i, odd->field, odd->index), i, op,
               absl::StrCat("option \"", odd->field, "\": ", odd->message));
    return false;
  }
  for (int k = 0; k < layers_.Get(i).param_size(); ++k) {
    const auto odd = proto::FindOddNumber(layers_.Get(i).param(k));
    if (!odd) continue;
    LayerError(locations_.ParamLoc(i, k, odd->field), i, op,
               absl::StrCat("param \"", layers_.Get(i).param(k).name(), "\": ", odd->field, ": ", odd->message));
    return false;
  }
  return true;
}

// Only the first of two entries for one parameter would count, so that is an error. Returns false when one was
// reported.
bool LayersImporter::CheckParams(int i, const OpDef& op) {
  std::map<std::string, int> first;
  for (int k = 0; k < layers_.Get(i).param_size(); ++k) {
    const std::string& name = layers_.Get(i).param(k).name();
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

SourceLoc LayersImporter::LocationOf(int layer, const absl::Status& status) const {
  const std::optional<ErrorPart> part = PartOf(status);
  if (!part.has_value()) return locations_.LayerLoc(layer);
  switch (part->kind) {
    case ErrorPart::Kind::kOption:
      return locations_.LayerOptionLoc(layer, part->name, part->index);
    case ErrorPart::Kind::kInput:
      // The index counts inputs of the node. Those beyond the layer's own are its parameters.
      if (part->index < layers_.Get(layer).input_size()) return locations_.LayerInputLoc(layer, part->index);
      break;
    case ErrorPart::Kind::kParameter:
      for (int k = 0; k < layers_.Get(layer).param_size(); ++k) {
        if (layers_.Get(layer).param(k).name() == part->name) return locations_.ParamLoc(layer, k);
      }
  }
  return locations_.LayerLoc(layer);
}

}  // namespace snug::core
