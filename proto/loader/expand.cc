#include "proto/loader/expand.h"

#include <absl/strings/str_cat.h>
#include <google/protobuf/descriptor.h>

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "engine/base/text/suggest.h"
#include "proto/loader/bind.h"
#include "proto/loader/check.h"
#include "proto/loader/fill.h"
#include "proto/loader/names.h"
#include "proto/loader/scope.h"
#include "proto/loader/subnetworks.h"
#include "proto/network.pb.h"

namespace snug::core::loader {
namespace {

using google::protobuf::FieldDescriptor;

const FieldDescriptor* NetworkField(const char* name) { return proto::Network::descriptor()->FindFieldByName(name); }
const FieldDescriptor* LayerField(const char* name) { return proto::Layer::descriptor()->FindFieldByName(name); }

// The full names of the values that a statement puts out. It is empty when they are unknown because of an error that
// was reported.
using Values = std::vector<std::string>;

class Expander {
 public:
  Expander(const Value& file, const LoadOptions& options, LoadedNetwork* loaded, ErrorList* errors)
      : file_(file),
        options_(options),
        network_(loaded->network),
        map_(loaded->source_map),
        errors_(errors),
        names_(&map_, options.max_name_length, errors),
        filler_(errors, options.max_expanded_bytes),
        blocks_(CollectBlocks(file, errors)) {}

  void Run() {
    const Scope scope;
    if (!file_.complete) names_.LosePrefix("");
    for (const Field& field : file_.fields) {
      if (Stopped()) return;
      TopLevel(field, scope);
    }
    for (size_t i = 0; i < wanted_bodies_.size() && !Stopped(); ++i) MakeSubnetwork(WantedBody(wanted_bodies_[i]));
    if (Stopped()) return;
    if (network_.layer_size() == 0 && options_.needs_layers && errors_->empty()) {
      errors_->Add({1, 1, -1}, "a network needs at least one layer: layer { name: \"...\" input: \"...\" relu {} }");
    }
    ResolveTargets(network_.mutable_objective(), map_.objectives);
    ResolveTargets(network_.mutable_output(), map_.outputs);
    ResolveTargetsOfUpdates();
    names_.Finish();
    if (errors_->empty()) CheckSubnetworks(network_, map_, options_, errors_);
  }

 private:
  bool Stopped() const { return stopped_ || filler_.exhausted() || errors_->full(); }

  void Fail(const Scope& scope, SourcePos pos, std::string message) {
    errors_->Add(scope.Place(pos), std::move(message));
  }

  // Reports that something is missing, unless it may be in the part that could not be read.
  void FailIfComplete(const Scope& scope, const Field& field, std::string message) {
    if (field.value.complete) Fail(scope, field.pos, std::move(message));
  }

  // ---- the top level ----

  void TopLevel(const Field& field, const Scope& scope) {
    if (!field.extension) {
      if (field.name == "block") return;
      if (field.name == "layer" || field.name == "repeat") {
        Statement(field, scope);
        return;
      }
      if (field.name == "input") return Inputs(field, scope);
      if (field.name == "objective") return Targets(field, scope, &map_.objectives);
      if (field.name == "output") return Targets(field, scope, &map_.outputs);
      if (Filler::Find(field, network_) == nullptr) return UnknownTopLevel(field, scope);
    }
    filler_.Fill(field, scope, &network_, &map_.network);
    if (field.name == "batch" && network_.has_batch() && network_.batch() < 1) {
      Fail(scope, field.value.pos, absl::StrCat("\"batch\": expected at least 1, found ", network_.batch()));
    }
  }

  void UnknownTopLevel(const Field& field, const Scope& scope) {
    const std::string meant_name = MeantAtTopLevel(field);
    Fail(scope, field.pos,
         absl::StrCat("unknown field \"", field.name.substr(0, 80), "\" of a network",
                      meant_name.empty() ? "" : absl::StrCat("; did you mean \"", meant_name, "\"?")));
    // Goes on silently, so that the names in it are known to what follows.
    ErrorList::Mute mute(errors_);
    if (!meant_name.empty()) {
      Field meant = field;
      meant.name = meant_name;
      TopLevel(meant, scope);
    } else if (field.value.kind == Value::Kind::kMessage || field.value.kind == Value::Kind::kBroken) {
      names_.LosePrefix("");
    }
  }

  void Inputs(const Field& field, const Scope& scope) {
    SourceNode node;
    const int before = network_.input_size();
    filler_.Fill(field, scope, &network_, &node);
    const bool list = field.value.kind == Value::Kind::kList;
    for (int i = before; i < network_.input_size(); ++i) {
      const Value& value = list ? field.value.items[static_cast<size_t>(i - before)] : field.value;
      DefineInput(network_.input(i), value, scope, node.children[static_cast<size_t>(i - before)]);
    }
    std::move(node.children.begin(), node.children.end(), std::back_inserter(map_.inputs));
  }

  void DefineInput(const proto::Input& input, const Value& value, const Scope& scope, const SourceNode& node) {
    if (value.kind != Value::Kind::kMessage) return names_.LoseOne();
    const bool dtype_known = input.has_dtype() || node.Find("dtype") == nullptr;
    CheckInput(input, [&](absl::string_view field, int k, std::string message) {
      if (field == "max_value" && !dtype_known) return;
      const SourceNode* shape = node.Find("shape");
      const SourceNode* dim = field == "dim" && shape != nullptr ? shape->Find("dim", k) : nullptr;
      const SourceNode* top = node.Find(field);
      errors_->Add((dim != nullptr ? dim : top != nullptr ? top : &node)->pos, std::move(message));
    });
    const SourceNode* name = node.Find("name");
    if (name != nullptr && input.has_name()) {
      if (names_.Check(input.name(), name->pos)) return names_.DefineInput(input.name(), name->pos);
    } else if (name == nullptr) {
      if (value.complete) Fail(scope, value.pos, "an input needs a name: name: \"...\"");
    }
    names_.LoseOne();
  }

  // Reads objectives and outputs. Their names are checked now, their values at the end.
  void Targets(const Field& field, const Scope& scope, std::vector<SourceNode>* places) {
    SourceNode node;
    filler_.Fill(field, scope, &network_, &node);
    std::move(node.children.begin(), node.children.end(), std::back_inserter(*places));
  }

  void ResolveTargets(google::protobuf::RepeatedPtrField<std::string>* targets, const std::vector<SourceNode>& places) {
    if (places.size() != static_cast<size_t>(targets->size())) return;  // one of them is broken
    for (int i = 0; i < targets->size(); ++i) {
      auto value = names_.Resolve("", targets->Get(i), places[static_cast<size_t>(i)].pos);
      if (value) *targets->Mutable(i) = *std::move(value);
    }
  }

  void ResolveTargetsOfUpdates() {
    int k = 0;
    for (const SourceNode& update : map_.network.children) {
      if (update.field != NetworkField("update")) continue;
      std::vector<SourceNode> places;
      for (const SourceNode& entry : update.children) {
        if (entry.field->name() == "objective") places.push_back(entry);
      }
      if (k < network_.update_size()) ResolveTargets(network_.mutable_update(k++)->mutable_objective(), places);
    }
  }

  // ---- statements: layers, uses of blocks, repeats ----

  Values Statement(const Field& field, const Scope& scope) {
    if (Stopped()) return {};
    if (field.value.kind == Value::Kind::kBroken) {
      names_.LosePrefix(scope.prefix);
      return {};
    }
    if (field.value.kind == Value::Kind::kList) {
      Values values;
      for (const Value& item : field.value.items) {
        Field one;
        one.name = field.name;
        one.pos = item.pos;
        one.value = item;
        values = Statement(one, scope);
      }
      return values;
    }
    if (field.value.kind != Value::Kind::kMessage) {
      Fail(scope, field.value.pos,
           absl::StrCat("\"", field.name, "\": expected a message { }, found ", field.value.Describe()));
      names_.LosePrefix(scope.prefix);
      return {};
    }
    if (!filler_.Charge(128, scope.Place(field.pos))) return {};
    return field.name == "repeat" ? Repeat(field, scope) : LayerOrUse(field, scope);
  }

  Values LayerOrUse(const Field& field, const Scope& scope) {
    const LayerParts parts = Understand(field, scope, blocks_, errors_);
    if (parts.op != nullptr && parts.op->role == LayerPart::Role::kBlock) return Use(field, parts, scope);
    return Layer(field, parts, scope);
  }

  // Returns the layer's full name, or nothing when it has none or it was not understood.
  std::optional<std::string> Name(const LayerParts& parts, const Scope& scope) {
    return parts.name == nullptr ? std::nullopt : Name(parts.name->field->value, scope);
  }

  std::optional<std::string> Name(const Value& value, const Scope& scope) {
    const std::optional<Scalar> scalar = Evaluate(value, scope, errors_);
    if (!scalar) return std::nullopt;
    if (scalar->kind != Scalar::Kind::kString) {
      Fail(scope, value.pos,
           absl::StrCat("\"name\": expected a string, found ", scalar->ToString(),
                        scalar->kind == Scalar::Kind::kIdentifier ? " (without quotes)" : ""));
      return std::nullopt;
    }
    std::string full = scope.prefix + scalar->text;
    if (!names_.Check(scalar->text, scope.Place(value.pos)) || !names_.Check(full, scope.Place(value.pos))) {
      return std::nullopt;
    }
    return full;
  }

  void AddInputs(const Value& value, const Scope& scope, const std::string& reader, std::vector<InputRef>* inputs) {
    if (value.kind == Value::Kind::kList) {
      for (const Value& item : value.items) AddInputs(item, scope, reader, inputs);
      return;
    }
    const SourcePos pos = scope.Place(value.pos);
    const std::optional<Scalar> scalar = Evaluate(value, scope, errors_);
    if (!scalar) {
      inputs->push_back({"", pos});
    } else if (scalar->kind == Scalar::Kind::kReference) {
      inputs->push_back({scalar->text, pos});
    } else if (scalar->kind == Scalar::Kind::kString) {
      inputs->push_back(
          {names_.Resolve(scope.prefix, scalar->text, pos, reader).value_or(""), pos, scope.prefix + scalar->text});
    } else {
      Fail(scope, value.pos,
           absl::StrCat("\"input\": expected the name of a layer or input, found ", scalar->ToString(),
                        scalar->kind == Scalar::Kind::kIdentifier ? " (without quotes)" : ""));
      inputs->push_back({"", pos});
    }
  }

  std::vector<InputRef> ReadInputs(const LayerParts& parts, const Scope& scope, const std::string& reader) {
    std::vector<InputRef> inputs;
    for (const LayerPart& part : parts.all) {
      if (part.role == LayerPart::Role::kInput) AddInputs(part.field->value, scope, reader, &inputs);
    }
    return inputs;
  }

  // ---- a layer of an op ----

  Values Layer(const Field& field, const LayerParts& parts, const Scope& scope) {
    if (network_.layer_size() >= options_.max_layers) {
      Fail(scope, field.pos, absl::StrCat("the network has more than ", options_.max_layers, " layers"));
      stopped_ = true;
      return {};
    }
    const std::optional<std::string> name = Name(parts, scope);
    const bool may_be_use = parts.op == nullptr ? parts.op_in_doubt : !parts.op->meant.empty();
    if (parts.name == nullptr && !may_be_use) FailIfComplete(scope, field, "a layer needs a name: name: \"...\"");
    if (parts.op == nullptr && !parts.op_in_doubt) {
      FailIfComplete(scope, field, "a layer needs an op, such as relu {} or dense { units: 10 }");
    }
    proto::Layer* layer = network_.add_layer();
    SourceNode node{NetworkField("layer"), scope.Place(field.pos), {}};
    if (name) {
      layer->set_name(*name);
      node.children.push_back({LayerField("name"), scope.Place(parts.name->field->value.pos), {}});
    }
    for (InputRef& input : ReadInputs(parts, scope, name.value_or(""))) {
      if (!filler_.Charge(static_cast<int64_t>(input.value.size()), input.pos)) break;
      layer->add_input(input.value.empty() ? std::move(input.wanted) : std::move(input.value));
      node.children.push_back({LayerField("input"), input.pos, {}});
    }
    for (const LayerPart& part : parts.all) {
      const bool first_op = part.role == LayerPart::Role::kOp && &part == parts.op;
      if (!first_op && part.role != LayerPart::Role::kParam) continue;
      if (part.meant.empty()) {
        filler_.Fill(*part.field, scope, layer, &node);
      } else {
        ErrorList::Mute mute(errors_);
        Field meant = *part.field;
        meant.name = part.meant;
        filler_.Fill(meant, scope, layer, &node);
      }
    }
    FindBodies(*layer, node, &wanted_bodies_);
    map_.layers.push_back(std::move(node));
    if (!name) {
      may_be_use&& parts.name == nullptr ? names_.LosePrefix(scope.prefix) : names_.LoseOne();
      return {};
    }
    if (!filler_.Charge(static_cast<int64_t>(3 * name->size()), scope.Place(field.pos))) return {};
    const SourcePos pos = scope.Place(parts.name->field->value.pos);
    names_.DefineLayer(*name, pos, {layer->input().begin(), layer->input().end()});
    return {*name};
  }

  // ---- the use of a block ----

  Values Use(const Field& field, const LayerParts& parts, const Scope& scope) {
    const BlockDefinition& block = *parts.op->block;
    const std::string what = absl::StrCat("block \"", block.name, "\"");
    const std::optional<std::string> name = Name(parts, scope);
    const std::vector<InputRef> inputs = ReadInputs(parts, scope, name.value_or(""));
    for (const LayerPart& part : parts.all) {
      if (part.role != LayerPart::Role::kParam) continue;
      Fail(scope, part.field->pos, "\"param\" belongs to a layer of an op: write it inside the block");
    }
    Scope inner;
    inner.depth = scope.depth + 1;
    inner.prefix = name ? *name + "." : scope.prefix;
    bool ok = !block.broken && parts.op->meant.empty() && name.has_value() == (parts.name != nullptr);
    ok = Binder(block, scope, &filler_, errors_).Bind(parts, field, inputs, &inner) && ok;
    ok = ok && MayEnter(block.name, what, field, scope);
    Values values;
    if (ok) {
      inner.bindings.emplace_back("name", NameScalar(name, scope));
      inner.expansion = map_.AddExpansion(absl::StrCat("in ", what, " used at "), scope.Place(field.pos));
      active_.push_back(block.name);
      values = Body(block.statements, block.outputs, inner);
      active_.pop_back();
    } else {
      names_.LosePrefix(inner.prefix);
    }
    if (name) names_.DefineAlias(*name, scope.Place(parts.name->field->value.pos), values, what);
    return values;
  }

  // $name is the full name of the use; a use without a name passes on that of the use around it.
  static Scalar NameScalar(const std::optional<std::string>& name, const Scope& scope) {
    if (name) return {.kind = Scalar::Kind::kString, .text = *name};
    const Scalar* around = scope.Find("name");
    return around != nullptr ? *around : Scalar{.kind = Scalar::Kind::kString};
  }

  bool MayEnter(const std::string& block, const std::string& what, const Field& field, const Scope& scope) {
    if (!block.empty() && std::find(active_.begin(), active_.end(), block) != active_.end()) {
      Fail(scope, field.pos, absl::StrCat(what, " uses itself"));
      return false;
    }
    if (scope.depth >= options_.max_block_depth) {
      Fail(scope, field.pos,
           absl::StrCat("blocks and repeats are nested more than ", options_.max_block_depth, " deep"));
      return false;
    }
    return true;
  }

  // Expands the statements of a block or of one repetition, and returns what they put out.
  Values Body(const std::vector<const Field*>& statements, const std::vector<const Value*>& outputs,
              const Scope& scope) {
    Values values;
    for (const Field* statement : statements) {
      if (Stopped()) return {};
      values = Statement(*statement, scope);
    }
    if (outputs.empty()) return values;
    std::vector<InputRef> named;
    for (const Value* output : outputs) AddInputs(*output, scope, "", &named);
    values.clear();
    for (InputRef& output : named) {
      if (output.value.empty()) return {};
      values.push_back(std::move(output.value));
    }
    return values;
  }

  // ---- sub-networks: blocks that loops run and branches take ----

  // The block is expanded once, in a world of its own: with names that nothing outside can see.
  void MakeSubnetwork(const WantedBody& wanted) {
    if (IsSubnetwork(network_, wanted.name)) return;
    const auto block = blocks_.find(wanted.name);
    if (block == blocks_.end() || wanted.name.empty()) {
      if (!blocks_.contains("")) errors_->Add(wanted.pos, NoSuchBody(wanted.name, network_, blocks_));
      return;
    }
    Scope scope;
    scope.depth = 1;
    if (!Binder(block->second, scope, &filler_, errors_).BindBody(wanted.pos, &scope)) return;
    scope.expansion = map_.AddExpansion(absl::StrCat("in block \"", wanted.name, "\" used at "), wanted.pos);
    NameTable around = std::exchange(names_, NameTable(&map_, options_.max_name_length, errors_));
    for (const std::string& input : block->second.inputs) {
      names_.DefineInput(input, scope.Place(block->second.pos));
    }
    const int before = network_.layer_size();
    active_.push_back(wanted.name);
    const Values values = Body(block->second.statements, block->second.outputs, scope);
    active_.pop_back();
    names_.Finish();
    names_ = std::move(around);
    AddSubnetwork(block->second, OutputNames(block->second, values, scope, errors_), values, before, &network_, &map_);
  }

  // ---- repeat ----

  Values Repeat(const Field& field, const Scope& scope) {
    const RepeatParts parts = ReadRepeat(field, scope, errors_);
    const std::optional<std::string> name = parts.name == nullptr ? std::nullopt : Name(parts.name->value, scope);
    std::vector<InputRef> inputs;
    if (parts.input != nullptr) AddInputs(parts.input->value, scope, "", &inputs);
    bool ok = parts.ok && name.has_value() == (parts.name != nullptr);
    if (parts.input != nullptr && inputs.size() != 1) {
      Fail(scope, parts.input->pos,
           absl::StrCat("a repeat hands on one value: expected one input, found ", inputs.size()));
      ok = false;
    }
    ok = ok && MayEnter("", "", field, scope);
    Values values;
    if (ok) {
      values = Repetitions(field, parts, scope, inputs);
    } else {
      for (const Field* statement : parts.statements) names_.LosePrefix(scope.prefix + BeginOfName(*statement));
    }
    if (name) names_.DefineAlias(*name, scope.Place(parts.name->value.pos), values, "the repeat");
    return values;
  }

  Values Repetitions(const Field& field, const RepeatParts& parts, const Scope& scope,
                     const std::vector<InputRef>& inputs) {
    Values values;
    if (!inputs.empty() && !inputs[0].value.empty()) values = {inputs[0].value};
    for (int64_t i = 0; i < parts.times; ++i) {
      if (!filler_.Charge(128, scope.Place(field.pos))) return {};
      Scope inner;
      inner.outer = &scope;
      inner.prefix = scope.prefix;
      inner.depth = scope.depth + 1;
      int64_t number = 0;
      if (__builtin_add_overflow(parts.from, i, &number)) {
        Fail(scope, parts.from_field->value.pos, "the index of the repeat does not fit into 64 bits");
        return {};
      }
      if (parts.index) {
        inner.bindings.emplace_back(*parts.index, Scalar{.kind = Scalar::Kind::kInteger, .integer = number});
      }
      if (!inputs.empty()) {
        const std::string value = values.empty() ? "" : values[0];
        inner.bindings.emplace_back("input", Scalar{.kind = Scalar::Kind::kReference, .text = value});
      }
      inner.expansion =
          map_.AddExpansion(absl::StrCat("in repetition ", number, " of the repeat at "), scope.Place(field.pos));
      values = Body(parts.statements, parts.outputs, inner);
      if (Stopped()) return {};
    }
    return values;
  }

  const Value& file_;
  const LoadOptions& options_;
  proto::Network& network_;
  SourceMap& map_;
  ErrorList* errors_;
  NameTable names_;
  Filler filler_;
  Blocks blocks_;
  std::vector<WantedBody> wanted_bodies_;
  std::vector<std::string> active_;  // the blocks that are being used, outermost first
  bool stopped_ = false;
};

}  // namespace

void Expand(const Value& file, const LoadOptions& options, LoadedNetwork* loaded, ErrorList* errors) {
  Expander(file, options, loaded, errors).Run();
}

}  // namespace snug::core::loader
