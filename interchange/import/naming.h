// How layers are called: as in the program that the model was exported from, where its names can be told.
#pragma once

#include <string>
#include <unordered_map>
#include <unordered_set>

namespace snug::proto::onnx {
class GraphProto;
class NodeProto;
}  // namespace snug::proto::onnx

namespace snug::core::onnx {

class Naming {
 public:
  explicit Naming(const proto::onnx::GraphProto& graph);

  // "layer1.0.conv1" for the initializer "layer1.0.conv1.weight"; empty if the name says nothing.
  static std::string OfWeight(const std::string& initializer);
  // "layer1.0.relu" for PyTorch's "/layer1/layer1.0/relu/Relu", "layer1.0.add" for its "/layer1/layer1.0/Add".
  std::string OfNode(const proto::onnx::NodeProto& node) const;

 private:
  std::unordered_set<std::string> parents_;  // modules that have others in them
};

}  // namespace snug::core::onnx
