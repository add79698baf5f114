#include "interchange/import/node.h"

#include <absl/strings/str_cat.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "engine/base/status.h"
#include "interchange/import/graph_importer.h"
#include "interchange/onnx.pb.h"
#include "proto/network.pb.h"

namespace snug::core::onnx {

using snug::proto::onnx::AttributeProto;
using snug::proto::onnx::NodeProto;

namespace {

const std::vector<const NodeProto*>& Nobody() {
  static const std::vector<const NodeProto*> nobody;
  return nobody;
}

absl::Status WrongType(absl::string_view name, absl::string_view expected) {
  return absl::InvalidArgumentError(absl::StrCat("attribute \"", name, "\": expected ", expected));
}

}  // namespace

double AsWritten(double value) {
  double read = value;
  for (int digits = 7; digits <= 9; ++digits) {
    char text[32];
    std::snprintf(text, sizeof(text), "%.*g", digits, value);
    read = std::strtod(text, nullptr);
    if (static_cast<float>(read) == static_cast<float>(value)) break;
  }
  return read;
}

const std::string& NodeContext::op() const { return node_.op_type(); }
int64_t NodeContext::opset() const { return importer_.model_.opset; }
NetworkBuilder& NodeContext::builder() { return importer_.builder_; }
int64_t NodeContext::batch() const { return importer_.batch_; }

int NodeContext::num_inputs() const { return node_.input_size(); }
int NodeContext::num_outputs() const {
  int count = 0;
  for (const std::string& output : node_.output()) count += output.empty() ? 0 : 1;
  return count;
}
bool NodeContext::has(int i) const { return i < node_.input_size() && !node_.input(i).empty(); }

const Value& NodeContext::input(int i) const {
  SNUG_CHECK(has(i));
  return importer_.values_.at(node_.input(i));
}

absl::StatusOr<const Tensor*> NodeContext::ConstantInput(int i, absl::string_view what) const {
  if (!has(i)) return absl::InvalidArgumentError(absl::StrCat("input ", i, " (", what, ") is absent"));
  if (!input(i).constant.has_value()) {
    return absl::InvalidArgumentError(absl::StrCat("input ", i, " (", what, ", \"", node_.input(i),
                                                   "\") is computed from the model's inputs, and "
                                                   "must be known before the run"));
  }
  return &*input(i).constant;
}

absl::StatusOr<std::vector<int64_t>> NodeContext::ListInput(int i, absl::string_view what) const {
  SNUG_ASSIGN_OR_RETURN(const Tensor* tensor, ConstantInput(i, what));
  absl::StatusOr<std::vector<int64_t>> list = tensor->IntList();
  if (!list.ok()) return Annotate(list.status(), absl::StrCat("input ", i, " (", what, ")"));
  return list;
}

absl::StatusOr<Value> NodeContext::Computed(int i) {
  if (!has(i)) return absl::InvalidArgumentError(absl::StrCat("input ", i, " is absent"));
  if (!input(i).constant.has_value()) return input(i);
  SNUG_ASSIGN_OR_RETURN(Ref ref, LayerOf(*input(i).constant));
  return Plain(std::move(ref));
}

const AttributeProto* NodeContext::Find(absl::string_view name) {
  Ignore(name);
  for (const AttributeProto& attribute : node_.attribute()) {
    if (attribute.name() == name) return &attribute;
  }
  return nullptr;
}

bool NodeContext::HasAttribute(absl::string_view name) { return Find(name) != nullptr; }

absl::StatusOr<int64_t> NodeContext::Int(absl::string_view name, int64_t otherwise) {
  const AttributeProto* attribute = Find(name);
  if (attribute == nullptr) return otherwise;
  if (!attribute->has_i()) return WrongType(name, "an integer");
  return attribute->i();
}

absl::StatusOr<double> NodeContext::Float(absl::string_view name, double otherwise) {
  const AttributeProto* attribute = Find(name);
  if (attribute == nullptr) return otherwise;
  if (!attribute->has_f()) return WrongType(name, "a number");
  return static_cast<double>(attribute->f());
}

absl::StatusOr<std::string> NodeContext::String(absl::string_view name, absl::string_view otherwise) {
  const AttributeProto* attribute = Find(name);
  if (attribute == nullptr) return std::string(otherwise);
  if (!attribute->has_s()) return WrongType(name, "a string");
  return attribute->s();
}

absl::StatusOr<std::vector<int64_t>> NodeContext::Ints(absl::string_view name) {
  const AttributeProto* attribute = Find(name);
  if (attribute == nullptr) return std::vector<int64_t>();
  if (attribute->ints_size() == 0 && (attribute->has_i() || attribute->has_f() || attribute->has_s())) {
    return WrongType(name, "a list of integers");
  }
  return std::vector<int64_t>(attribute->ints().begin(), attribute->ints().end());
}

absl::StatusOr<Tensor> NodeContext::TensorAttribute(absl::string_view name) {
  const AttributeProto* attribute = Find(name);
  if (attribute == nullptr || !attribute->has_t()) return WrongType(name, "a tensor");
  return ReadTensor(attribute->t(), *importer_.model_.external);
}

std::vector<std::string> NodeContext::UnknownAttributes() const {
  std::vector<std::string> unknown;
  for (const AttributeProto& attribute : node_.attribute()) {
    if (known_.count(attribute.name()) == 0) unknown.push_back(attribute.name());
  }
  return unknown;
}

absl::StatusOr<std::optional<std::vector<int64_t>>> NodeContext::ListOf(absl::string_view attribute, int input) {
  if (has(input)) {
    SNUG_ASSIGN_OR_RETURN(std::vector<int64_t> list, ListInput(input, attribute));
    return std::make_optional(std::move(list));
  }
  if (!HasAttribute(attribute)) return std::nullopt;
  SNUG_ASSIGN_OR_RETURN(std::vector<int64_t> list, Ints(attribute));
  return std::make_optional(std::move(list));
}

absl::StatusOr<int> NodeContext::Axis(int64_t written, int rank) const {
  if (written < -rank || written >= rank) {
    return absl::InvalidArgumentError(absl::StrCat("axis ", written, " of ", rank, " dimensions"));
  }
  return static_cast<int>(written < 0 ? written + rank : written);
}

absl::StatusOr<int> NodeContext::AxisAttribute(int64_t otherwise, int rank) {
  SNUG_ASSIGN_OR_RETURN(const int64_t written, Int("axis", otherwise));
  return Axis(written, rank);
}

std::string NodeContext::LayerName(const Tensor* weight) const {
  if (weight != nullptr) {
    const std::string name = CleanName(Naming::OfWeight(weight->name));
    if (!name.empty() && !importer_.builder_.IsTaken(name)) return name;
  }
  return importer_.naming_.OfNode(node_);
}

void NodeContext::Set(int i, Value value) {
  if (i < node_.output_size() && !node_.output(i).empty()) SetOther(node_.output(i), std::move(value));
}

void NodeContext::SetOther(const std::string& name, Value value) { importer_.values_[name] = std::move(value); }

const std::vector<const NodeProto*>& NodeContext::ReadersOf(const std::string& value) const {
  const auto it = importer_.readers_.find(value);
  return it == importer_.readers_.end() ? Nobody() : it->second;
}

bool NodeContext::IsOutput(const std::string& value) const { return importer_.graph_outputs_.count(value) > 0; }

const NodeProto* NodeContext::OnlyReader(const std::string& value) const {
  if (IsOutput(value)) return nullptr;
  const std::vector<const NodeProto*>& readers = ReadersOf(value);
  return readers.size() == 1 ? readers[0] : nullptr;
}

const NodeProto* NodeContext::ProducerOf(const std::string& value) const {
  const auto it = importer_.producers_.find(value);
  return it == importer_.producers_.end() ? nullptr : it->second;
}

const Value* NodeContext::Lookup(const std::string& value) const {
  const auto it = importer_.values_.find(value);
  return it == importer_.values_.end() || it->second.failed ? nullptr : &it->second;
}

std::optional<double> NodeContext::NumberOf(const std::string& value) const {
  const auto number = [](const Tensor& t) {
    const bool one = std::all_of(t.dims().begin(), t.dims().end(), [](int64_t dim) { return dim == 1; });
    return one && t.stored_count() == 1 ? std::optional<double>(t.scalar()) : std::nullopt;
  };
  if (const Value* known = Lookup(value); known != nullptr) {
    return known->constant.has_value() ? number(*known->constant) : std::nullopt;
  }
  const NodeProto* producer = ProducerOf(value);
  if (producer == nullptr || producer->op_type() != "Constant") return std::nullopt;
  NodeContext context(importer_, *producer);
  const absl::StatusOr<Folded> folded = Fold(context);
  return folded.ok() && folded->done ? number(folded->outputs[0]) : std::nullopt;
}

absl::StatusOr<Ref> NodeContext::Layer(proto::Layer layer, const std::vector<Ref>& inputs, const Weights& weights,
                                       const Tensor* name) {
  return builder().AddOne(LayerName(name), std::move(layer), inputs, weights);
}

absl::Status NodeContext::SetElementwise(const Value& x, proto::Layer layer, const Weights& weights) {
  Value y = x;
  SNUG_ASSIGN_OR_RETURN(y.ref, Layer(std::move(layer), {x.ref}, weights));
  Set(0, std::move(y));
  return absl::OkStatus();
}

absl::StatusOr<Ref> NodeContext::LayerOf(const Tensor& tensor) {
  return importer_.LayerOf(tensor, absl::StrCat(LayerName(), ".constant"));
}

}  // namespace snug::core::onnx
