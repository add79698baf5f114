#include "proto/source_map.h"

#include <absl/strings/str_cat.h>
#include <google/protobuf/descriptor.h>

#include <algorithm>
#include <utility>

namespace snug::core {
namespace {

const SourceNode* Entry(const std::vector<SourceNode>& nodes, int i) {
  return i >= 0 && static_cast<size_t>(i) < nodes.size() ? &nodes[static_cast<size_t>(i)] : nullptr;
}

// Returns the op's message: the one child of a layer that is no name, input or parameter.
const SourceNode* Op(const SourceNode* layer) {
  if (layer == nullptr) return nullptr;
  for (const SourceNode& child : layer->children) {
    if (child.field->cpp_type() == google::protobuf::FieldDescriptor::CPPTYPE_MESSAGE && !child.field->is_repeated()) {
      return &child;
    }
  }
  return nullptr;
}

// Returns the innermost of the places that are known.
SourcePos Innermost(std::initializer_list<const SourceNode*> nodes) {
  SourcePos pos;
  for (const SourceNode* node : nodes) {
    if (node != nullptr && node->pos.known()) pos = node->pos;
  }
  return pos;
}

const SourceNode* FindIn(const SourceNode* node, absl::string_view field, int k = 0) {
  return node == nullptr || field.empty() ? nullptr : node->Find(field, k);
}

}  // namespace

const SourceNode* SourceNode::Find(absl::string_view name, int k) const {
  for (const SourceNode& child : children) {
    if (absl::string_view(child.field->name()) == name && k-- == 0) return &child;
  }
  return nullptr;
}

SourceLoc SourceMap::Loc(SourcePos pos) const {
  SourceLoc loc{file_, pos.line, pos.column, nullptr};
  if (pos.expansion >= 0) loc.trace = std::make_shared<const std::string>(Trace(pos.expansion));
  return loc;
}

SourceLoc SourceMap::InputLoc(int i, absl::string_view field) const {
  const SourceNode* input = Entry(inputs, i);
  return Loc(Innermost({input, FindIn(input, field)}));
}
SourceLoc SourceMap::LayerLoc(int i) const { return Loc(Innermost({Entry(layers, i)})); }
SourceLoc SourceMap::ObjectiveLoc(int i) const { return Loc(Innermost({Entry(objectives, i)})); }
SourceLoc SourceMap::OutputLoc(int i) const { return Loc(Innermost({Entry(outputs, i)})); }

SourceLoc SourceMap::LayerInputLoc(int i, int k) const {
  const SourceNode* layer = Entry(layers, i);
  return Loc(Innermost({layer, FindIn(layer, "input", k)}));
}

SourceLoc SourceMap::LayerOpLoc(int i) const {
  const SourceNode* layer = Entry(layers, i);
  return Loc(Innermost({layer, Op(layer)}));
}

SourceLoc SourceMap::LayerOptionLoc(int i, absl::string_view option, int k) const {
  const SourceNode* layer = Entry(layers, i);
  const SourceNode* op = Op(layer);
  return Loc(Innermost({layer, op, FindIn(op, option, 0), FindIn(op, option, k)}));
}

SourceLoc SourceMap::ParamLoc(int i, int k, absl::string_view field) const {
  const SourceNode* layer = Entry(layers, i);
  const SourceNode* param = FindIn(layer, "param", k);
  return Loc(Innermost({layer, param, FindIn(param, field)}));
}

SourceLoc SourceMap::OptionLoc(absl::string_view path, int k) const {
  SourcePos pos;
  const SourceNode* node = &network;
  while (node != nullptr && !path.empty()) {
    const absl::string_view field = path.substr(0, path.find('.'));
    path.remove_prefix(std::min(path.size(), field.size() + 1));
    node = node->Find(field, path.empty() ? k : 0);
    if (node != nullptr && node->pos.known()) pos = node->pos;
  }
  return Loc(pos);
}

SourceLoc SourceMap::UpdateLoc(int k, absl::string_view field, int i) const {
  const SourceNode* update = FindIn(&network, "update", k);
  return Loc(Innermost({update, FindIn(update, field, i)}));
}

SourceLoc SourceMap::NetworkLoc(absl::string_view field) const { return Loc(Innermost({FindIn(&network, field)})); }

SourceMap SourceMap::Subnetwork(int k) const {
  SourceMap map;
  map.file_ = file_;
  map.expansions_ = expansions_;
  const SourceNode* subnetwork = network.Find("subnetwork", k);
  if (subnetwork == nullptr) return map;
  for (const SourceNode& child : subnetwork->children) {
    if (child.field->name() == "layer") map.layers.push_back(child);
  }
  return map;
}

int32_t SourceMap::AddExpansion(std::string what, SourcePos used_at) {
  expansions_.push_back({std::move(what), used_at});
  return static_cast<int32_t>(expansions_.size() - 1);
}

std::string SourceMap::Trace(int32_t expansion) const {
  std::string trace;
  while (expansion >= 0) {
    const Expansion& e = expansions_[static_cast<size_t>(expansion)];
    absl::StrAppend(&trace, trace.empty() ? "" : ", ", e.what, *file_, ":", e.used_at.line, ":", e.used_at.column);
    expansion = e.used_at.expansion;
  }
  return trace;
}

}  // namespace snug::core
