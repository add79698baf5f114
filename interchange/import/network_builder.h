// Grows the network that an import makes, a layer at a time. What a layer puts out is asked of Snug's own shape
// inference, so that a layer that Snug would refuse is refused here, where the ONNX node is known.
#pragma once

#include <absl/status/statusor.h>

#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "engine/base/dtype.h"
#include "interchange/tensor.h"

namespace snug::proto {
class Layer;
class Network;
}  // namespace snug::proto

namespace snug::core::onnx {

// What an input or a layer of the network puts out: its name there, and its type for the batch of the import.
struct Ref {
  std::string name;
  Dims dims;
  DType dtype = DType::kFloat32;
};

// The content of a layer's parameters and statistics, by their names in the layer.
using Weights = std::vector<std::pair<std::string, Tensor>>;

class NetworkBuilder {
 public:
  NetworkBuilder();
  ~NetworkBuilder();

  proto::Network& network() { return *network_; }
  const std::map<std::string, Tensor>& weights() const { return weights_; }

  // The shape includes the batch, as axis 0.
  Ref AddInput(const std::string& wanted, Dims dims, DType dtype);
  // `layer` has its op and options; it is named `wanted`, or like it. It is an error if its op needs another parameter
  // than `weights` has, or one of another shape. A weight that comes from the same initializer as an earlier one, and
  // equals it, is tied to that one.
  absl::StatusOr<std::vector<Ref>> Add(const std::string& wanted, proto::Layer layer, const std::vector<Ref>& inputs,
                                       const Weights& weights = {}, int outputs = 1);
  absl::StatusOr<Ref> AddOne(const std::string& wanted, proto::Layer layer, const std::vector<Ref>& inputs,
                             const Weights& weights = {});
  // Views. The same one of the same value is made once, and a reshape of a reshape is one reshape.
  absl::StatusOr<Ref> Reshape(const Ref& x, const Dims& dims);
  absl::StatusOr<Ref> Transpose(const Ref& x, const std::vector<int>& axes);

  // Removes layers that no output of the network depends on.
  void RemoveUnused();
  bool IsTaken(const std::string& name) const { return taken_.count(name) > 0; }

 private:
  // A name that nothing has, nor its parameters under it.
  std::string Unique(const std::string& wanted, const Weights& weights = {});
  const std::string* Owner(const Tensor& weight) const;  // the parameter that it can be tied to

  std::unique_ptr<proto::Network> network_;
  std::map<std::string, Tensor> weights_;  // by full name
  std::unordered_map<std::string, std::string> layer_of_weight_;
  std::unordered_set<std::string> taken_;
  std::unordered_map<std::string, std::vector<std::string>> weights_of_;  // initializer -> full names
  std::unordered_map<std::string, Ref> views_;                            // what was done with what -> the result
  std::unordered_map<std::string, Ref> viewed_;                           // a reshape's result -> what was reshaped
};

// Replaces what cannot stand in a name of the model file.
std::string CleanName(absl::string_view name);

}  // namespace snug::core::onnx
