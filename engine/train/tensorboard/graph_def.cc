#include "engine/train/tensorboard/graph_def.h"

#include <absl/strings/match.h>
#include <absl/strings/str_replace.h>
#include <absl/strings/string_view.h>

#include "engine/graph/graph.h"
#include "engine/train/tensorboard/wire.h"
#include "proto/network.pb.h"

namespace snug::core::tensorboard {
namespace {

// Numbers of fields in tensorflow/core/framework/{graph,node_def,attr_value,tensor_shape,versions}.proto.
constexpr int kGraphNode = 1, kGraphVersions = 4, kProducer = 1;
constexpr int kNodeName = 1, kNodeOp = 2, kNodeInput = 3, kNodeAttribute = 5;
constexpr int kEntryKey = 1, kEntryValue = 2;
constexpr int kAttributeList = 1, kAttributeString = 2, kListShape = 7;
constexpr int kShapeDim = 2, kDimSize = 1;

std::string NodeName(absl::string_view name) { return absl::StrReplaceAll(name, {{".", "/"}}); }

void AddAttribute(absl::string_view name, const Wire& value, Wire* node) {
  node->Message(kNodeAttribute, Wire().Bytes(kEntryKey, name).Message(kEntryValue, value));
}

void AddShape(const Graph& graph, absl::string_view value, Wire* node) {
  const ValueId id = graph.FindValue(value);
  if (!id.valid()) return;
  Wire shape;
  const Shape& dims = graph.type(id).shape;
  for (int i = 0; i < dims.rank(); ++i) shape.Message(kShapeDim, Wire().Integer(kDimSize, dims[i]));
  AddAttribute("_output_shapes", Wire().Message(kAttributeList, Wire().Message(kListShape, shape)), node);
}

Wire LayerNode(const proto::Layer& layer, const Graph& graph) {
  Wire node;
  const google::protobuf::FieldDescriptor* const op =
      layer.GetReflection()->GetOneofFieldDescriptor(layer, layer.GetDescriptor()->FindOneofByName("op"));
  node.Bytes(kNodeName, NodeName(layer.name())).Bytes(kNodeOp, op == nullptr ? "extension" : op->name());
  for (const std::string& input : layer.input()) node.Bytes(kNodeInput, NodeName(input));
  if (op != nullptr) {
    const std::string options = layer.GetReflection()->GetMessage(layer, op).ShortDebugString();
    if (!options.empty()) AddAttribute("options", Wire().Bytes(kAttributeString, options), &node);
  }
  AddShape(graph, layer.name(), &node);
  return node;
}

}  // namespace

std::string GraphDefOf(const proto::Network& network, const Graph& graph) {
  constexpr int64_t kGraphDefVersion = 22;
  Wire definition;
  for (const proto::Input& input : network.input()) {
    Wire node;
    node.Bytes(kNodeName, NodeName(input.name())).Bytes(kNodeOp, "input");
    AddShape(graph, input.name(), &node);
    definition.Message(kGraphNode, node);
  }
  for (const proto::Layer& layer : network.layer()) definition.Message(kGraphNode, LayerNode(layer, graph));
  definition.Message(kGraphVersions, Wire().Integer(kProducer, kGraphDefVersion));
  return definition.bytes();
}

}  // namespace snug::core::tensorboard
