// Goes through an ONNX graph and makes layers of its nodes. What is wrong is collected, by node.
#pragma once

#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "interchange/import/import.h"
#include "interchange/import/naming.h"
#include "interchange/import/node.h"

namespace snug::proto::onnx {
class ValueInfoProto;
}

namespace snug::core::onnx {

class GraphImporter {
 public:
  GraphImporter(const Model& model, const ImportModelOptions& options);

  // Goes through inputs, nodes and outputs. Another `trial` goes through with another number of samples where the file
  // leaves that open.
  void Run(int trial = 0);
  bool leaves_batch_open() const { return leaves_batch_open_; }
  const std::vector<std::string>& problems() const { return problems_; }
  NetworkBuilder& builder() { return builder_; }
  ImportedModel Take();

 private:
  friend class NodeContext;

  void AddInputs();
  absl::Status AddInput(const proto::onnx::ValueInfoProto& input);
  void ChooseBatch(int trial);
  void Visit(const proto::onnx::NodeProto& node, int number);
  absl::Status Map(NodeContext& context);
  absl::Status CheckInputs(const proto::onnx::NodeProto& node, bool* failed);
  void AddOutputs();
  absl::Status AddOutput(const std::string& name);
  absl::Status AddLoss();
  void Fail(const proto::onnx::NodeProto& node);
  absl::StatusOr<Ref> LayerOf(const Tensor& tensor, const std::string& name);

  const Model& model_;
  const ImportModelOptions& options_;
  Naming naming_;
  NetworkBuilder builder_;
  ImportedModel result_;
  int64_t batch_ = 0;  // of inputs that leave it open: a number that nothing else is
  bool leaves_batch_open_ = false;
  std::unordered_map<std::string, Value> values_;
  std::unordered_map<std::string, std::vector<const proto::onnx::NodeProto*>> readers_;
  std::unordered_map<std::string, const proto::onnx::NodeProto*> producers_;
  std::unordered_set<std::string> graph_outputs_;
  std::unordered_map<std::string, std::vector<Ref>> as_layers_;  // initializers that have become layers
  std::unordered_map<std::string, Ref> constants_;               // by their layer
  std::vector<std::string> problems_;
};

}  // namespace snug::core::onnx
