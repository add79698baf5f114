#include "interchange/export/writer.h"

#include <absl/strings/str_cat.h>
#include <absl/strings/str_join.h>

#include <utility>

#include "engine/base/status.h"
#include "interchange/onnx.pb.h"

namespace snug::core::onnx {
namespace {

using snug::proto::onnx::AttributeProto;
using snug::proto::onnx::NodeProto;
using snug::proto::onnx::TensorProto;

TensorProto::DataType TypeOf(DType dtype) {
  switch (dtype) {
    case DType::kInt32:
      return TensorProto::INT32;
    case DType::kInt64:
      return TensorProto::INT64;
    case DType::kUint8:
      return TensorProto::UINT8;
    case DType::kFloat64:
      return TensorProto::DOUBLE;
    default:
      return TensorProto::FLOAT;
  }
}

void SetAttribute(const std::string& name, const AttributeValue& value, AttributeProto* attribute) {
  attribute->set_name(name);
  if (const auto* number = std::get_if<int64_t>(&value)) {
    attribute->set_type(AttributeProto::INT);
    attribute->set_i(*number);
  } else if (const auto* real = std::get_if<double>(&value)) {
    attribute->set_type(AttributeProto::FLOAT);
    attribute->set_f(static_cast<float>(*real));
  } else if (const auto* text = std::get_if<std::string>(&value)) {
    attribute->set_type(AttributeProto::STRING);
    attribute->set_s(*text);
  } else {
    attribute->set_type(AttributeProto::INTS);
    for (const int64_t entry : std::get<std::vector<int64_t>>(value)) attribute->add_ints(entry);
  }
}

}  // namespace

GraphWriter::GraphWriter(const Graph& graph, int64_t batch)
    : source_(graph), batch_(batch), model_(std::make_unique<proto::onnx::ModelProto>()) {}
GraphWriter::~GraphWriter() = default;

std::string GraphWriter::Unique(const std::string& wanted) {
  const int times = taken_[wanted]++;
  return times == 0 ? wanted : Unique(absl::StrCat(wanted, "#", times));
}

const std::string& GraphWriter::NameOf(ValueId value) {
  const auto [it, added] = names_.try_emplace(value.index);
  if (added) it->second = Unique(source_.value(value).name);
  return it->second;
}

void GraphWriter::Add(const std::string& op, const std::vector<std::string>& inputs,
                      const std::vector<std::string>& outputs, const Attributes& attributes) {
  NodeProto* node = model_->mutable_graph()->add_node();
  node->set_op_type(op);
  node->set_name(outputs[0]);
  for (const std::string& input : inputs) node->add_input(input);
  for (const std::string& output : outputs) node->add_output(output);
  for (const auto& [name, value] : attributes) SetAttribute(name, value, node->add_attribute());
}

void GraphWriter::Initializer(const std::string& name, const std::vector<int64_t>& dims, DType dtype,
                              absl::string_view bytes) {
  TensorProto* tensor = model_->mutable_graph()->add_initializer();
  tensor->set_name(name);
  tensor->set_data_type(TypeOf(dtype));
  for (const int64_t dim : dims) tensor->add_dims(dim);
  tensor->set_raw_data(bytes.data(), bytes.size());
}

std::string GraphWriter::Constant(const std::string& kind, const std::vector<int64_t>& dims, DType dtype,
                                  absl::string_view bytes) {
  std::string& name = constants_[absl::StrCat(kind, absl::StrJoin(dims, ","), ":", bytes)];
  if (name.empty()) {
    name = Unique(absl::StrCat("constant.", constants_.size()));
    Initializer(name, dims, dtype, bytes);
  }
  return name;
}

std::string GraphWriter::Floats(const std::vector<int64_t>& dims, const std::vector<float>& values) {
  return Constant("f", dims, DType::kFloat32,
                  {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)});
}

std::string GraphWriter::Ints(const std::vector<int64_t>& dims, const std::vector<int64_t>& values) {
  return Constant("i", dims, DType::kInt64,
                  {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(int64_t)});
}

void GraphWriter::AddValueInfo(bool is_input, const std::string& name, const ValueType& type) {
  auto* info = is_input ? model_->mutable_graph()->add_input() : model_->mutable_graph()->add_output();
  info->set_name(name);
  auto* tensor = info->mutable_type()->mutable_tensor_type();
  tensor->set_elem_type(TypeOf(type.dtype));
  tensor->mutable_shape();
  for (const int64_t size : type.shape.dims()) {
    auto* dim = tensor->mutable_shape()->add_dim();
    if (batch_ > 0 && size == batch_) {
      dim->set_dim_param("batch");
    } else if (batch_ > 0 && size % batch_ == 0) {
      dim->set_dim_param(absl::StrCat(size / batch_, "*batch"));
    } else {
      dim->set_dim_value(size);
    }
  }
}

void GraphWriter::CountSamplesBy(ValueId input) { samples_ = input; }

absl::StatusOr<std::string> GraphWriter::SizeBySamples(int64_t size) {
  if (!samples_.valid()) {
    return absl::InvalidArgumentError("depends on the number of samples, which no input tells: say --batch=N");
  }
  if (const auto found = sizes_.find(size); found != sizes_.end()) return found->second;
  const int64_t own = source_.type(samples_).shape[0];
  std::string name;
  if (size == own) {
    name = Unique("samples");
    Add("Shape", {NameOf(samples_)}, {name}, {{"start", int64_t{0}}, {"end", int64_t{1}}});
  } else {
    SNUG_ASSIGN_OR_RETURN(name, SizeBySamples(own));
    const auto times = [&](const char* op, int64_t factor) {
      if (factor == 1) return;
      const std::string before = name;
      name = Unique("samples");
      Add(op, {before, Ints({1}, {factor})}, {name});
    };
    times("Mul", size / batch_);
    times("Div", own / batch_);
  }
  return sizes_[size] = name;
}

std::string ExportContext::Add(const std::string& op, const std::vector<std::string>& inputs,
                               const Attributes& attributes) {
  const std::string name = writer_.Unique(absl::StrCat(node_.name, "/", op));
  writer_.Add(op, inputs, {name}, attributes);
  return name;
}

absl::Status ExportContext::Finish(const std::string& op, const std::vector<std::string>& inputs,
                                   const Attributes& attributes) {
  writer_.Add(op, inputs, {out()}, attributes);
  return absl::OkStatus();
}

absl::StatusOr<std::string> ExportContext::ReshapeTarget(const Shape& from, const Shape& to) {
  std::vector<int64_t> target;
  bool open = false;
  for (int i = 0; i < to.rank(); ++i) {
    int64_t size = to[i];
    if (OfBatch(size)) {
      if (i < from.rank() && from[i] == size) {
        size = 0;
      } else if (open) {
        return absl::InvalidArgumentError("has two axes whose sizes depend on the number of samples: say --batch=N");
      } else {
        size = -1;
        open = true;
      }
    }
    target.push_back(size);
  }
  return List(target);
}

absl::StatusOr<std::string> ExportContext::SizesThere(const std::vector<int64_t>& sizes) {
  std::vector<std::string> parts;
  std::vector<int64_t> fixed;
  const auto finish_fixed = [&] {
    if (!fixed.empty()) parts.push_back(List(fixed));
    fixed.clear();
  };
  for (const int64_t size : sizes) {
    if (!OfBatch(size)) {
      fixed.push_back(size);
      continue;
    }
    finish_fixed();
    SNUG_ASSIGN_OR_RETURN(std::string part, writer_.SizeBySamples(size));
    parts.push_back(std::move(part));
  }
  finish_fixed();
  if (parts.empty()) return List({});
  return parts.size() == 1 ? parts[0] : Add("Concat", parts, {{"axis", int64_t{0}}});
}

}  // namespace snug::core::onnx
