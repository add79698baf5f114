// Makes a network of Snug's of an ONNX model: layers, as a person would write them, and the content of their
// parameters.
#pragma once

#include <absl/status/statusor.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "interchange/model_file.h"
#include "interchange/tensor.h"

namespace snug::proto {
class Network;
}

namespace snug::core::onnx {

struct ImportModelOptions {
  std::string name;  // of the network; empty: the graph's
  // Shapes of inputs whose sizes the file leaves open, batch and all: "tokens" -> [1, 128].
  std::map<std::string, Dims> shapes;
  // "softmax_cross_entropy" or "mean_squared_error": the network gets a label and this loss of its first output, so
  // that it can be trained; empty: none.
  std::string loss;
};

struct ImportedModel {
  ImportedModel();
  ~ImportedModel();
  ImportedModel(ImportedModel&&) noexcept;
  ImportedModel& operator=(ImportedModel&&) noexcept;

  std::unique_ptr<proto::Network> network;
  std::map<std::string, Tensor> weights;                     // by full name
  std::vector<std::pair<std::string, std::string>> outputs;  // the graph's name, and the layer's
  std::vector<std::pair<std::string, std::string>> inputs;
  std::vector<std::string> notes;  // what is not as in the file, but means no harm
};

// The error lists everything that cannot be imported, by node.
absl::StatusOr<ImportedModel> ImportModel(const Model& model, const ImportModelOptions& options);

// Writes <prefix>.pbtxt and <prefix>.safetensors: both, or neither. `comment` begins the first, a line each.
absl::Status WriteImported(const ImportedModel& imported, const std::string& prefix,
                           const std::vector<std::string>& comment);

}  // namespace snug::core::onnx
