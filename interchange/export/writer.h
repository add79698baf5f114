// Grows an ONNX graph, and what a node of ours sees of it while it is translated.
#pragma once

#include <absl/status/statusor.h>
#include <absl/strings/string_view.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "engine/graph/graph.h"

namespace snug::proto::onnx {
class GraphProto;
class ModelProto;
class NodeProto;
}  // namespace snug::proto::onnx

namespace snug::core::onnx {

// An attribute's value.
using AttributeValue = std::variant<int64_t, double, std::string, std::vector<int64_t>>;
using Attributes = std::vector<std::pair<std::string, AttributeValue>>;

class GraphWriter {
 public:
  // `batch`: the number that stands for any, or 0 if sizes are what they are.
  GraphWriter(const Graph& graph, int64_t batch);
  ~GraphWriter();

  proto::onnx::ModelProto& model() { return *model_; }
  const Graph& source() const { return source_; }
  int64_t batch() const { return batch_; }
  // Whether a size depends on the number of samples.
  bool OfBatch(int64_t size) const { return batch_ > 0 && size % batch_ == 0 && size > 0; }

  // How a value of ours is called there: as here, unless it was called something else before.
  const std::string& NameOf(ValueId value);
  // The first name that a value is called by stays; no other value gets a later one.
  void Call(ValueId value, const std::string& name) { names_.emplace(value.index, Unique(name)); }
  // Adds a node, named after its first output.
  void Add(const std::string& op, const std::vector<std::string>& inputs, const std::vector<std::string>& outputs,
           const Attributes& attributes = {});
  // The name of a constant; equal ones are written once.
  std::string Floats(const std::vector<int64_t>& dims, const std::vector<float>& values);
  std::string Ints(const std::vector<int64_t>& dims, const std::vector<int64_t>& values);
  void Initializer(const std::string& name, const std::vector<int64_t>& dims, DType dtype, absl::string_view bytes);
  void AddValueInfo(bool is_input, const std::string& name, const ValueType& type);
  // Names the input whose axis 0 says how many samples a running model was given.
  void CountSamplesBy(ValueId input);
  // The name of a list of one number: `size`, which depends on the number of samples, as the running model has it.
  // Fails if no input says how many there are.
  absl::StatusOr<std::string> SizeBySamples(int64_t size);
  std::string Unique(const std::string& wanted);

 private:
  std::string Constant(const std::string& kind, const std::vector<int64_t>& dims, DType dtype, absl::string_view bytes);

  const Graph& source_;
  int64_t batch_;
  std::unique_ptr<proto::onnx::ModelProto> model_;
  std::unordered_map<int32_t, std::string> names_;
  std::map<std::string, int> taken_;
  std::map<std::string, std::string> constants_;  // content -> name
  ValueId samples_;                               // the input of CountSamplesBy
  std::map<int64_t, std::string> sizes_;          // size -> name
};

// A node of ours that is being translated.
class ExportContext {
 public:
  ExportContext(GraphWriter& writer, const Node& node) : writer_(writer), node_(node) {}

  const Node& node() const { return node_; }
  GraphWriter& writer() { return writer_; }
  template <class Message>
  const Message& options() const {
    return node_.options.Get<Message>();
  }
  int num_inputs() const { return static_cast<int>(node_.inputs.size()); }
  bool has(int i) const { return i >= 0 && i < num_inputs() && node_.inputs[static_cast<size_t>(i)].valid(); }
  const std::string& in(int i) { return writer_.NameOf(node_.inputs[static_cast<size_t>(i)]); }
  const std::string& out(int i = 0) { return writer_.NameOf(node_.outputs[static_cast<size_t>(i)]); }
  const Shape& shape(int i) const { return writer_.source().type(node_.inputs[static_cast<size_t>(i)]).shape; }
  const Shape& out_shape(int i = 0) const { return writer_.source().type(node_.outputs[static_cast<size_t>(i)]).shape; }
  DType dtype(int i) const { return writer_.source().type(node_.inputs[static_cast<size_t>(i)]).dtype; }
  DType out_dtype(int i = 0) const { return writer_.source().type(node_.outputs[static_cast<size_t>(i)]).dtype; }

  // Adds a node whose result is an intermediate one, and returns its name.
  std::string Add(const std::string& op, const std::vector<std::string>& inputs, const Attributes& attributes = {});
  // Adds the node whose result is our node's output 0.
  absl::Status Finish(const std::string& op, const std::vector<std::string>& inputs, const Attributes& attributes = {});
  std::string Scalar(double value) { return writer_.Floats({}, {static_cast<float>(value)}); }
  std::string List(const std::vector<int64_t>& values) {
    return writer_.Ints({static_cast<int64_t>(values.size())}, values);
  }
  // The shape `to` as Reshape takes it for a value of shape `from`: 0 for an axis that stays, -1 for one that depends
  // on the number of samples. Fails if two do.
  absl::StatusOr<std::string> ReshapeTarget(const Shape& from, const Shape& to);
  // A shape as Expand takes it: a constant, or put together by the running model where sizes depend on the number of
  // samples.
  absl::StatusOr<std::string> SizesThere(const std::vector<int64_t>& sizes);
  // Whether a size depends on the number of samples.
  bool OfBatch(int64_t size) const { return writer_.OfBatch(size); }

 private:
  GraphWriter& writer_;
  const Node& node_;
};

using Translation = absl::Status (*)(ExportContext&);
struct NamedTranslation {
  const char* op;  // of ours
  Translation translate;
};

// By family: a new op is a new line.
std::vector<NamedTranslation> ElementwiseTranslations();
std::vector<NamedTranslation> ShapeTranslations();
std::vector<NamedTranslation> ImageTranslations();
std::vector<NamedTranslation> ProductTranslations();
std::vector<NamedTranslation> NormTranslations();

}  // namespace snug::core::onnx
