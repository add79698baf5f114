#include "interchange/import/network_builder.h"

#include <absl/algorithm/container.h>
#include <absl/strings/ascii.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/str_join.h>
#include <absl/strings/strip.h>

#include <algorithm>

#include "engine/base/status.h"
#include "engine/compile/import/import.h"
#include "engine/graph/graph.h"
#include "ops/registry.h"
#include "proto/network.pb.h"
#include "proto/source_map.h"

namespace snug::core::onnx {
namespace {

constexpr size_t kMaxName = 200;  // a parameter's name comes after it

proto::DataType DataTypeOf(DType dtype) {
  switch (dtype) {
    case DType::kInt32:
      return proto::INT32;
    case DType::kInt64:
      return proto::INT64;
    case DType::kUint8:
      return proto::UINT8;
    default:
      return proto::FLOAT;
  }
}

// A network of nothing but the layer, whose inputs are complete as they are.
proto::Network Alone(const proto::Layer& layer, const std::vector<Ref>& inputs, int outputs) {
  proto::Network network;
  network.set_name("layer");
  proto::Layer* copy = network.add_layer();
  *copy = layer;
  copy->set_name("layer");
  for (proto::Param& param : *copy->mutable_param()) param.clear_tie();
  for (size_t i = 0; i < inputs.size(); ++i) {
    proto::Input* input = network.add_input();
    input->set_name(absl::StrCat("x", i));
    input->set_no_batch(true);
    input->set_dtype(DataTypeOf(inputs[i].dtype));
    for (const int64_t dim : inputs[i].dims) input->mutable_shape()->add_dim(dim);
    copy->add_input(input->name());
  }
  network.add_output("layer");
  for (int i = 1; i < outputs; ++i) network.add_output(absl::StrCat("layer:", i));
  return network;
}

// The message without the place and the layer's name, which are those of the network above.
std::string WithoutPlace(absl::string_view message) {
  const size_t begin = message.find("layer \"layer\"");
  std::string text(begin == absl::string_view::npos ? message : message.substr(begin));
  absl::string_view rest = text;
  if (absl::ConsumePrefix(&rest, "layer \"layer\" ")) return absl::StrCat("as a layer ", rest);
  return text;
}

bool SameContent(const Tensor& a, const Tensor& b) {
  return a.is_float() && b.is_float() && a.dims() == b.dims() && a.stored() == b.stored() && a.floats() == b.floats();
}

}  // namespace

std::string CleanName(absl::string_view name) {
  std::string clean;
  for (const char c : name) {
    const bool fine =
        absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '.' || c == '-' || c == '/';
    clean += fine ? c : '_';
  }
  const size_t begin = clean.find_first_not_of("/.");
  clean = begin == std::string::npos ? "" : clean.substr(begin);
  if (clean.size() > kMaxName) clean = clean.substr(clean.size() - kMaxName);
  return clean;
}

NetworkBuilder::NetworkBuilder() : network_(std::make_unique<proto::Network>()) {}
NetworkBuilder::~NetworkBuilder() = default;

std::string NetworkBuilder::Unique(const std::string& wanted, const Weights& weights) {
  std::string base = CleanName(wanted);
  if (base.empty()) base = "layer";
  std::string name = base;
  const auto names = [&] {
    std::vector<std::string> all = {name};
    for (const auto& [parameter, content] : weights) {
      if (!parameter.empty()) all.push_back(absl::StrCat(name, ".", parameter));
    }
    return all;
  };
  const auto is_taken = [&](const std::string& one) { return taken_.count(one) > 0; };
  for (int k = 1; absl::c_any_of(names(), is_taken); ++k) name = absl::StrCat(base, "_", k);
  for (std::string& one : names()) taken_.insert(std::move(one));
  return name;
}

Ref NetworkBuilder::AddInput(const std::string& wanted, Dims dims, DType dtype) {
  proto::Input* input = network_->add_input();
  input->set_name(Unique(wanted));
  if (DataTypeOf(dtype) != proto::FLOAT) input->set_dtype(DataTypeOf(dtype));
  for (size_t i = 1; i < dims.size(); ++i) input->mutable_shape()->add_dim(dims[i]);
  return {input->name(), std::move(dims), dtype};
}

const std::string* NetworkBuilder::Owner(const Tensor& weight) const {
  // Vectors stay each layer's own: exporters write one initializer for all that happen to be equal, as those of norms
  // at first are.
  if (weight.name.empty() || weight.rank() < 2) return nullptr;
  const auto it = weights_of_.find(weight.name);
  if (it == weights_of_.end()) return nullptr;
  for (const std::string& name : it->second) {
    if (SameContent(weights_.at(name), weight)) return &name;
  }
  return nullptr;
}

absl::StatusOr<std::vector<Ref>> NetworkBuilder::Add(const std::string& wanted, proto::Layer layer,
                                                     const std::vector<Ref>& inputs, const Weights& weights,
                                                     int outputs) {
  const absl::StatusOr<Imported> imported =
      Import(Alone(layer, inputs, outputs), SourceMap("onnx"), OpRegistry::Builtin(), {.batch = 1, .training = false});
  if (!imported.ok()) return absl::InvalidArgumentError(WithoutPlace(imported.status().message()));
  const Graph& graph = imported->graph;
  layer.set_name(Unique(wanted, weights));
  for (const Ref& input : inputs) layer.add_input(input.name);
  for (const Variable& variable : graph.variables()) {
    if (variable.role != VariableRole::kParameter && variable.role != VariableRole::kStatistic) continue;
    const std::string parameter(absl::StripPrefix(variable.name == "layer" ? "" : variable.name, "layer."));
    const auto it = std::find_if(weights.begin(), weights.end(), [&](const auto& w) { return w.first == parameter; });
    if (it == weights.end()) return absl::InvalidArgumentError(absl::StrCat("there is no content for its ", parameter));
    SNUG_ASSIGN_OR_RETURN(Tensor content, it->second.Spread());
    const absl::Span<const int64_t> shape = variable.type.shape.dims();
    if (!content.is_float() || content.dims() != Dims(shape.begin(), shape.end())) {
      return absl::InvalidArgumentError(absl::StrCat("its ", parameter, ": expected ", variable.type.shape.ToString(),
                                                     ", found ", DimsText(content.dims())));
    }
    const std::string full = parameter.empty() ? layer.name() : absl::StrCat(layer.name(), ".", parameter);
    const std::string* owner = parameter.empty() ? nullptr : Owner(content);
    if (owner != nullptr && variable.role == VariableRole::kParameter) {
      proto::Param* param = layer.add_param();
      param->set_name(parameter);
      param->set_tie(*owner);
      continue;
    }
    if (!content.name.empty()) weights_of_[content.name].push_back(full);
    layer_of_weight_[full] = layer.name();
    weights_.emplace(full, std::move(content));
  }
  std::vector<Ref> refs;
  for (int i = 0; i < outputs; ++i) {
    const Output& output = graph.outputs[static_cast<size_t>(i)];
    const ValueType& type = graph.type(output.value);
    refs.push_back({i == 0 ? layer.name() : absl::StrCat(layer.name(), ":", i),
                    {type.shape.dims().begin(), type.shape.dims().end()},
                    type.dtype});
  }
  *network_->add_layer() = std::move(layer);
  return refs;
}

absl::StatusOr<Ref> NetworkBuilder::AddOne(const std::string& wanted, proto::Layer layer,
                                           const std::vector<Ref>& inputs, const Weights& weights) {
  SNUG_ASSIGN_OR_RETURN(const std::vector<Ref> refs, Add(wanted, std::move(layer), inputs, weights));
  return refs[0];
}

absl::StatusOr<Ref> NetworkBuilder::Reshape(const Ref& x, const Dims& dims) {
  if (x.dims == dims) return x;
  if (dims.empty() || x.dims.empty() || dims[0] != x.dims[0]) {
    return absl::InvalidArgumentError(
        absl::StrCat("a reshape of ", DimsText(x.dims), " to ", DimsText(dims), " would not leave the batch as it is"));
  }
  const auto source = viewed_.find(x.name);
  if (source != viewed_.end()) {
    const Ref from = source->second;
    return Reshape(from, dims);
  }
  Ref& made = views_[absl::StrCat(x.name, " ", absl::StrJoin(dims, ","))];
  if (!made.name.empty()) return made;
  proto::Layer layer;
  proto::Reshape* reshape = layer.mutable_reshape();
  for (size_t i = 1; i < dims.size(); ++i) reshape->add_dim(dims[i]);
  absl::StatusOr<Ref> result = AddOne(absl::StrCat(x.name, ".reshape"), std::move(layer), {x});
  if (!result.ok()) return result;
  viewed_[result->name] = x;
  views_[absl::StrCat(x.name, " ", absl::StrJoin(dims, ","))] = *result;
  return result;
}

absl::StatusOr<Ref> NetworkBuilder::Transpose(const Ref& x, const std::vector<int>& axes) {
  if (std::is_sorted(axes.begin(), axes.end())) return x;
  const std::string key = absl::StrCat(x.name, " transposed ", absl::StrJoin(axes, ","));
  if (const auto it = views_.find(key); it != views_.end() && !it->second.name.empty()) return it->second;
  proto::Layer layer;
  for (const int axis : axes) layer.mutable_transpose()->add_axes(axis);
  SNUG_ASSIGN_OR_RETURN(const Ref result, AddOne(absl::StrCat(x.name, ".transpose"), std::move(layer), {x}));
  views_[key] = result;
  return result;
}

void NetworkBuilder::RemoveUnused() {
  std::unordered_set<std::string> used(network_->output().begin(), network_->output().end());
  used.insert(network_->objective().begin(), network_->objective().end());
  const auto layer_of = [](const std::string& reference) { return reference.substr(0, reference.find(':')); };
  std::unordered_set<std::string> layers, owners;
  for (const std::string& name : used) layers.insert(layer_of(name));
  google::protobuf::RepeatedPtrField<proto::Layer> kept;
  std::vector<const proto::Layer*> reversed;
  for (int i = network_->layer_size() - 1; i >= 0; --i) {
    const proto::Layer& layer = network_->layer(i);
    // What another layer is tied to stays, with what it reads.
    if (layers.count(layer.name()) == 0 && owners.count(layer.name()) == 0) continue;
    reversed.push_back(&layer);
    for (const std::string& input : layer.input()) layers.insert(layer_of(input));
    for (const proto::Param& param : layer.param()) {
      if (param.has_tie()) owners.insert(param.tie().substr(0, param.tie().rfind('.')));
    }
  }
  for (auto it = reversed.rbegin(); it != reversed.rend(); ++it) *kept.Add() = **it;
  network_->mutable_layer()->Swap(&kept);
  std::unordered_set<std::string> names;
  for (const proto::Layer& layer : network_->layer()) names.insert(layer.name());
  for (auto it = weights_.begin(); it != weights_.end();) {
    const bool needed = names.count(layer_of_weight_.at(it->first)) > 0;
    it = needed ? std::next(it) : weights_.erase(it);
  }
}

}  // namespace snug::core::onnx
