// A node of the ONNX graph as a mapping sees it: inputs as values, attributes by name, and where its results go.
#pragma once

#include <absl/status/statusor.h>
#include <absl/strings/string_view.h>

#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "interchange/import/network_builder.h"
#include "interchange/import/value.h"

namespace snug::proto::onnx {
class AttributeProto;
class NodeProto;
}  // namespace snug::proto::onnx

namespace snug::core::onnx {

class GraphImporter;

class NodeContext {
 public:
  NodeContext(GraphImporter& importer, const proto::onnx::NodeProto& node) : importer_(importer), node_(node) {}

  const proto::onnx::NodeProto& node() const { return node_; }
  const std::string& op() const;
  int64_t opset() const;
  NetworkBuilder& builder();

  int num_inputs() const;
  int num_outputs() const;  // that have a name
  bool has(int i) const;    // an input that is there
  // The caller knows that it is there.
  const Value& input(int i) const;
  // An input that has to be known now.
  absl::StatusOr<const Tensor*> ConstantInput(int i, absl::string_view what) const;
  absl::StatusOr<std::vector<int64_t>> ListInput(int i, absl::string_view what) const;
  // An input as a value that is computed: constants become parameters or constants of the network.
  absl::StatusOr<Value> Computed(int i);

  // Attributes. All that are asked for are known to the mapping; another one in the file is an error.
  bool HasAttribute(absl::string_view name);
  absl::StatusOr<int64_t> Int(absl::string_view name, int64_t otherwise);
  absl::StatusOr<double> Float(absl::string_view name, double otherwise);
  absl::StatusOr<std::string> String(absl::string_view name, absl::string_view otherwise);
  absl::StatusOr<std::vector<int64_t>> Ints(absl::string_view name);  // empty where there is none
  absl::StatusOr<Tensor> TensorAttribute(absl::string_view name);
  // An attribute that changes nothing here.
  void Ignore(absl::string_view name) { known_.insert(std::string(name)); }
  const proto::onnx::AttributeProto* Find(absl::string_view name);
  std::vector<std::string> UnknownAttributes() const;
  // A list that an attribute has in older versions and an input in newer ones; nullopt: neither is there.
  absl::StatusOr<std::optional<std::vector<int64_t>>> ListOf(absl::string_view attribute, int input);
  absl::StatusOr<int> Axis(int64_t written, int rank) const;
  absl::StatusOr<int> AxisAttribute(int64_t otherwise, int rank);

  // How a layer of this node is called: after the weight, if it is one with a name, or after the node.
  std::string LayerName(const Tensor* weight = nullptr) const;

  void Set(int i, Value value);
  void SetRef(int i, Ref ref) { Set(i, Plain(std::move(ref))); }
  // The only node that reads this node's output i, if it has input `other` being known; null otherwise.
  const proto::onnx::NodeProto* OnlyReader(const std::string& value) const;
  const proto::onnx::NodeProto* ProducerOf(const std::string& value) const;
  const std::vector<const proto::onnx::NodeProto*>& ReadersOf(const std::string& value) const;
  bool IsOutput(const std::string& value) const;  // of the graph
  NodeContext At(const proto::onnx::NodeProto& other) const { return {importer_, other}; }
  const Value* Lookup(const std::string& value) const;  // null: not made yet
  // The one number that a value is, known now or as soon as its node is reached.
  std::optional<double> NumberOf(const std::string& value) const;
  // Another node's output is made by this one, which has taken it in.
  void SetOther(const std::string& name, Value value);

  // Adds a layer of one output, and returns that.
  absl::StatusOr<Ref> Layer(proto::Layer layer, const std::vector<Ref>& inputs, const Weights& weights = {},
                            const Tensor* name = nullptr);
  // The same for a layer that reads one value and lies as that does, and is output 0: elementwise ops.
  absl::Status SetElementwise(const Value& x, proto::Layer layer, const Weights& weights = {});
  // A constant as a layer: a parameter, if it was an initializer, or a constant of the network.
  absl::StatusOr<Ref> LayerOf(const Tensor& tensor);
  int64_t batch() const;  // how many samples the graph is gone through with

 private:
  GraphImporter& importer_;
  const proto::onnx::NodeProto& node_;
  std::set<std::string> known_;
};

// A number as one would write it: ONNX keeps it as a float32, in which 1e-5 is 9.99999974e-06.
double AsWritten(double value);

using Mapping = absl::Status (*)(NodeContext&);
struct NamedMapping {
  const char* op;
  Mapping map;
};

// The mappings of one file each, by the ONNX op: a new op is a new line.
std::vector<NamedMapping> LinearMappings();
std::vector<NamedMapping> ConvolutionMappings();
std::vector<NamedMapping> NormMappings();
std::vector<NamedMapping> ElementwiseMappings();
std::vector<NamedMapping> ReductionMappings();
std::vector<NamedMapping> ShapeMappings();

// Computes what follows from constants alone. `done` says whether the op is one that is computed here.
struct Folded {
  bool done = false;
  std::vector<Tensor> outputs;
};
absl::StatusOr<Folded> Fold(NodeContext& c);

// Nodes that are one layer of Snug together: tried before the node's own mapping. True: it was that.
absl::StatusOr<bool> Fuse(NodeContext& c);

}  // namespace snug::core::onnx
