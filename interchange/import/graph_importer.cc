#include "interchange/import/graph_importer.h"

#include <absl/strings/str_cat.h>
#include <absl/strings/str_join.h>

#include <algorithm>
#include <map>
#include <set>

#include "engine/base/status.h"
#include "interchange/onnx.pb.h"
#include "proto/network.pb.h"

namespace snug::core::onnx {
namespace {

using snug::proto::onnx::NodeProto;
using snug::proto::onnx::TensorProto;
using snug::proto::onnx::ValueInfoProto;

constexpr int64_t kMostInText = 64;  // numbers of a constant that the model file itself has

std::map<std::string, Mapping> AllMappings() {
  std::map<std::string, Mapping> all;
  for (const auto& mappings : {LinearMappings(), ConvolutionMappings(), NormMappings(), ElementwiseMappings(),
                               ReductionMappings(), ShapeMappings()}) {
    for (const NamedMapping& mapping : mappings) all.emplace(mapping.op, mapping.map);
  }
  return all;
}

std::string NodeText(const NodeProto& node, int number) {
  const std::string name =
      !node.name().empty()
          ? absl::StrCat("\"", node.name(), "\"")
          : absl::StrCat(number, node.output_size() > 0 ? absl::StrCat(" of \"", node.output(0), "\"") : "");
  return absl::StrCat("node ", name, " (", node.domain().empty() ? "" : absl::StrCat(node.domain(), "."),
                      node.op_type(), ")");
}

absl::StatusOr<DType> DTypeOfInput(int32_t type) {
  switch (type) {
    case TensorProto::FLOAT:
    case TensorProto::DOUBLE:
    case TensorProto::FLOAT16:
    case TensorProto::BFLOAT16:
      return DType::kFloat32;
    case TensorProto::INT32:
    case TensorProto::INT64:
    case TensorProto::BOOL:
      return DType::kInt32;
    case TensorProto::UINT8:
      return DType::kUint8;
    default:
      return absl::InvalidArgumentError(absl::StrCat(
          "element type ",
          TensorProto::DataType_IsValid(type) ? TensorProto::DataType_Name(static_cast<TensorProto::DataType>(type))
                                              : absl::StrCat("number ", type),
          " is not one of Snug's"));
  }
}

}  // namespace

GraphImporter::GraphImporter(const Model& model, const ImportModelOptions& options)
    : model_(model), options_(options), naming_(model.proto->graph()) {
  for (const auto& [name, tensor] : model.initializers) values_[name] = Constant(tensor);
  for (const NodeProto& node : model.proto->graph().node()) {
    for (const std::string& input : node.input()) {
      if (!input.empty()) readers_[input].push_back(&node);
    }
    for (const std::string& output : node.output()) {
      if (!output.empty()) producers_.emplace(output, &node);
    }
  }
  for (const ValueInfoProto& output : model.proto->graph().output()) graph_outputs_.insert(output.name());
}

// A batch that the file leaves open is gone through as a number by which nothing in the file can be divided, so that it
// is found again in every shape that is computed.
void GraphImporter::ChooseBatch(int trial) {
  std::set<int64_t> numbers;
  for (const auto& [name, tensor] : model_.initializers) numbers.insert(tensor.dims().begin(), tensor.dims().end());
  for (const ValueInfoProto& input : model_.proto->graph().input()) {
    for (const auto& dim : input.type().tensor_type().shape().dim()) numbers.insert(dim.dim_value());
  }
  for (const int64_t prime : {101, 103, 107, 109, 113, 127, 131, 137, 139, 149, 151, 157, 163}) {
    batch_ = prime;
    const bool divides =
        std::any_of(numbers.begin(), numbers.end(), [=](int64_t n) { return n > 0 && n % prime == 0; });
    if (!divides && trial-- == 0) return;
  }
}

absl::Status GraphImporter::AddInput(const ValueInfoProto& input) {
  if (!input.type().has_tensor_type() || !input.type().tensor_type().has_shape()) {
    return absl::InvalidArgumentError("expected a tensor whose number of dimensions is known");
  }
  SNUG_ASSIGN_OR_RETURN(const DType dtype, DTypeOfInput(input.type().tensor_type().elem_type()));
  const auto& shape = input.type().tensor_type().shape();
  if (shape.dim_size() == 0) {
    return absl::InvalidArgumentError("is a scalar: Snug's inputs have a batch as their first axis");
  }
  Dims dims;
  const auto given = options_.shapes.find(input.name());
  for (int i = 0; i < shape.dim_size(); ++i) {
    int64_t dim = shape.dim(i).has_dim_value() ? shape.dim(i).dim_value() : 0;
    if (given != options_.shapes.end()) {
      if (given->second.size() != static_cast<size_t>(shape.dim_size())) {
        return absl::InvalidArgumentError(
            absl::StrCat("--shape: expected ", shape.dim_size(), " numbers, found ", given->second.size()));
      }
      const int64_t said = given->second[static_cast<size_t>(i)];
      if (dim > 0 && i > 0 && said != dim) {
        return absl::InvalidArgumentError(
            absl::StrCat("--shape: expected ", dim, " for axis ", i, ", as the file says, found ", said));
      }
      if (dim <= 0 && i > 0) dim = said;
    }
    if (dim <= 0 && i == 0) {
      dim = batch_;
      leaves_batch_open_ = true;
    }
    if (dim <= 0) {
      return absl::InvalidArgumentError(absl::StrCat("axis ", i, " is as long as is decided when the model is run (\"",
                                                     shape.dim(i).dim_param(), "\"): say --shape=", input.name(),
                                                     ":... with all ", shape.dim_size(), " sizes"));
    }
    dims.push_back(dim);
  }
  SNUG_RETURN_IF_ERROR(CountElements(dims).status());
  Ref ref = builder_.AddInput(input.name(), dims, dtype);
  result_.inputs.emplace_back(input.name(), ref.name);
  if (!values_.emplace(input.name(), Plain(std::move(ref))).second) {
    return absl::InvalidArgumentError("another value has its name");
  }
  return absl::OkStatus();
}

void GraphImporter::AddInputs() {
  for (const ValueInfoProto& input : model_.proto->graph().input()) {
    if (model_.initializers.count(input.name()) > 0) continue;  // old files list initializers as inputs, too
    const absl::Status status = AddInput(input);
    if (status.ok()) continue;
    problems_.push_back(absl::StrCat("input \"", input.name(), "\": ", std::string(status.message())));
    values_[input.name()].failed = true;
  }
  for (const auto& [name, shape] : options_.shapes) {
    if (values_.count(name) == 0) problems_.push_back(absl::StrCat("--shape: there is no input \"", name, "\""));
  }
}

void GraphImporter::Fail(const NodeProto& node) {
  for (const std::string& output : node.output()) values_[output].failed = true;
}

absl::Status GraphImporter::CheckInputs(const NodeProto& node, bool* failed) {
  for (const std::string& input : node.input()) {
    if (input.empty()) continue;
    const auto it = values_.find(input);
    if (it == values_.end()) {
      const bool known = producers_.count(input) > 0;
      return absl::InvalidArgumentError(
          absl::StrCat("reads \"", input, "\", which ",
                       known ? "no node before it makes, or which is not imported" : "is not there"));
    }
    *failed = *failed || it->second.failed;
  }
  return absl::OkStatus();
}

absl::Status GraphImporter::Map(NodeContext& context) {
  static const std::map<std::string, Mapping>& mappings = *new std::map<std::string, Mapping>(AllMappings());
  const NodeProto& node = context.node();
  if (!node.domain().empty() && node.domain() != "ai.onnx") {
    return absl::InvalidArgumentError("only ops of ONNX's own domain are imported");
  }
  bool all_known = true;
  for (const std::string& input : node.input()) {
    all_known = all_known && (input.empty() || values_.at(input).constant.has_value());
  }
  if (all_known || node.op_type() == "Shape" || node.op_type() == "Size") {
    SNUG_ASSIGN_OR_RETURN(Folded folded, Fold(context));
    if (folded.done) {
      for (size_t i = 0; i < folded.outputs.size(); ++i) {
        context.Set(static_cast<int>(i), Constant(std::move(folded.outputs[i])));
      }
      return absl::OkStatus();
    }
  }
  SNUG_ASSIGN_OR_RETURN(const bool fused, Fuse(context));
  if (fused) return absl::OkStatus();
  const auto it = mappings.find(node.op_type());
  if (it == mappings.end()) return absl::InvalidArgumentError("this op is not imported");
  if (node.input_size() == 0 || node.input(0).empty()) return absl::InvalidArgumentError("has no input");
  SNUG_RETURN_IF_ERROR(it->second(context));
  const std::vector<std::string> unknown = context.UnknownAttributes();
  if (!unknown.empty()) {
    return absl::InvalidArgumentError(absl::StrCat("attribute", unknown.size() > 1 ? "s " : " ",
                                                   absl::StrJoin(unknown, ", "), unknown.size() > 1 ? " are" : " is",
                                                   " not understood"));
  }
  return absl::OkStatus();
}

void GraphImporter::Visit(const NodeProto& node, int number) {
  const auto made = [this](const std::string& output) { return output.empty() || values_.count(output) > 0; };
  if (node.output_size() > 0 && std::all_of(node.output().begin(), node.output().end(), made)) {
    // It was taken in by another node; or the file defines a value twice, which no valid one does.
    const bool twice = std::any_of(node.output().begin(), node.output().end(), [&](const std::string& output) {
      return !output.empty() && producers_.at(output) != &node;
    });
    if (twice) problems_.push_back(absl::StrCat(NodeText(node, 0), ": its output is another node's, too"));
    return;
  }
  bool failed = false;
  absl::Status status = CheckInputs(node, &failed);
  if (status.ok() && failed) return Fail(node);
  if (status.ok()) {
    NodeContext context(*this, node);
    status = Map(context);
  }
  if (status.ok()) return;
  problems_.push_back(absl::StrCat(NodeText(node, number), ": ", std::string(status.message())));
  Fail(node);
}

absl::Status GraphImporter::AddOutput(const std::string& name) {
  const auto it = values_.find(name);
  if (it == values_.end()) return absl::InvalidArgumentError("no node makes it, or it is not imported");
  if (it->second.failed) return absl::OkStatus();
  if (it->second.constant.has_value()) {
    return absl::InvalidArgumentError("does not depend on the model's inputs");
  }
  SNUG_ASSIGN_OR_RETURN(const Ref ref, InOrder(builder_, it->second));
  result_.outputs.emplace_back(name, ref.name);
  const auto& outputs = builder_.network().output();
  if (std::find(outputs.begin(), outputs.end(), ref.name) == outputs.end()) builder_.network().add_output(ref.name);
  return absl::OkStatus();
}

void GraphImporter::AddOutputs() {
  for (const ValueInfoProto& output : model_.proto->graph().output()) {
    const absl::Status status = AddOutput(output.name());
    if (!status.ok()) {
      problems_.push_back(absl::StrCat("output \"", output.name(), "\": ", std::string(status.message())));
    }
  }
  if (model_.proto->graph().output_size() == 0) problems_.push_back("the graph has no outputs");
}

absl::Status GraphImporter::AddLoss() {
  const Value& scores = values_.at(result_.outputs.at(0).first);
  SNUG_ASSIGN_OR_RETURN(const Ref ref, InOrder(builder_, scores));
  proto::Network& network = builder_.network();
  proto::Layer loss;
  if (options_.loss == "mean_squared_error") {
    const Ref target = builder_.AddInput("target", ref.dims, DType::kFloat32);
    loss.mutable_mean_squared_error();
    SNUG_ASSIGN_OR_RETURN(const Ref value, builder_.AddOne("loss", std::move(loss), {ref, target}));
    network.add_objective(value.name);
    return absl::OkStatus();
  }
  if (options_.loss != "softmax_cross_entropy") {
    return absl::InvalidArgumentError(
        absl::StrCat("--loss: expected softmax_cross_entropy or mean_squared_error, found \"", options_.loss, "\""));
  }
  if (ref.dims.size() < 2) return absl::InvalidArgumentError("--loss: the first output has no axis of classes");
  const Ref label = builder_.AddInput("label", Dims(ref.dims.begin(), ref.dims.end() - 1), DType::kInt32);
  network.mutable_input(network.input_size() - 1)->set_max_value(ref.dims.back());
  loss.mutable_softmax_cross_entropy();
  SNUG_ASSIGN_OR_RETURN(const Ref value, builder_.AddOne("loss", std::move(loss), {ref, label}));
  proto::Layer accuracy;
  accuracy.mutable_accuracy();
  SNUG_ASSIGN_OR_RETURN(const Ref right, builder_.AddOne("accuracy", std::move(accuracy), {ref, label}));
  network.add_objective(value.name);
  network.add_output(right.name);
  return absl::OkStatus();
}

void GraphImporter::Run(int trial) {
  ChooseBatch(trial);
  AddInputs();
  for (int i = 0; i < model_.proto->graph().node_size(); ++i) Visit(model_.proto->graph().node(i), i);
  AddOutputs();
  if (!problems_.empty() || options_.loss.empty()) return;
  const absl::Status status = AddLoss();
  if (!status.ok()) problems_.emplace_back(status.message());
}

absl::StatusOr<Ref> GraphImporter::LayerOf(const Tensor& tensor, const std::string& name) {
  SNUG_ASSIGN_OR_RETURN(Tensor whole, tensor.Spread());
  if (whole.is_weight && whole.rank() == 0) {  // parameters have axes
    SNUG_ASSIGN_OR_RETURN(whole, whole.Reshaped({1}));
  }
  proto::Layer layer;
  const bool parameter =
      whole.is_float() && whole.rank() > 0 && (whole.is_weight || whole.stored_count() > kMostInText);
  if (!parameter) {
    proto::Constant* constant = layer.mutable_constant();
    for (const int64_t dim : whole.dims()) constant->add_dim(dim);
    if (!whole.is_float()) constant->set_dtype(proto::INT32);
    for (int64_t i = 0; i < whole.stored_count(); ++i) constant->add_value(whole.Get(i));
    Ref& same = constants_[layer.SerializeAsString()];  // equal ones are one layer
    if (same.name.empty()) {
      SNUG_ASSIGN_OR_RETURN(same, builder_.AddOne(name, std::move(layer), {}));
    }
    return same;
  }
  std::vector<Ref>& same = as_layers_[absl::StrCat(whole.name, " ", DimsText(whole.dims()))];
  for (const Ref& ref : same) {
    if (!whole.name.empty() && builder_.weights().at(ref.name).floats() == whole.floats()) return ref;
  }
  for (const int64_t dim : whole.dims()) layer.mutable_parameter()->add_dim(dim);
  if (!whole.is_weight) {  // a mask or the like, too large for the model file
    proto::Param* param = layer.add_param();
    param->set_name("");
    param->set_frozen(true);
  }
  const std::string wanted = whole.is_weight && !CleanName(whole.name).empty() ? CleanName(whole.name) : name;
  SNUG_ASSIGN_OR_RETURN(const Ref ref, builder_.AddOne(wanted, std::move(layer), {}, {{"", whole}}));
  same.push_back(ref);
  return ref;
}

ImportedModel GraphImporter::Take() {
  builder_.RemoveUnused();
  result_.network = std::make_unique<proto::Network>(builder_.network());
  result_.network->set_name(!options_.name.empty() ? options_.name : model_.proto->graph().name());
  result_.weights = builder_.weights();
  return std::move(result_);
}

}  // namespace snug::core::onnx
