// What the pretended cuDNN is told, read from its descriptors: tensors, and the operations on them.
#pragma once

#include <cstring>
#include <map>
#include <optional>
#include <vector>

#include "tests/cuda/cudnn/fake_cudnn.h"

namespace snug::core::cuda::fake_cudnn {

inline constexpr int64_t kAlignment = 16;

using Dims = std::vector<int64_t>;

// A tensor's description.
struct Tensor {
  int64_t uid = 0;
  cudnnDataType_t type = CUDNN_DATA_FLOAT;
  Dims dims, strides;
  bool is_virtual = false, by_value = false;

  size_t rank() const { return dims.size(); }
  int64_t elements() const {
    int64_t n = 1;
    for (const int64_t dim : dims) n *= dim;
    return n;
  }
  int64_t span() const {  // elements from the first to the last
    int64_t last = 0;
    for (size_t i = 0; i < rank(); ++i) last += (dims[i] - 1) * strides[i];
    return last + 1;
  }
};

struct Operation {
  cudnnBackendDescriptorType_t type;
  std::map<cudnnBackendAttributeName_t, Tensor> tensors = {};
  // What is known of a convolution.
  Dims pad_begin = {}, pad_end = {}, stride = {}, dilation = {};
  // A pointwise operation's.
  cudnnPointwiseMode_t mode = CUDNN_POINTWISE_IDENTITY;
  int64_t axis = -1;
  cudnnReduceTensorOp_t reduction = CUDNN_REDUCE_TENSOR_ADD;
};

struct Program {
  std::vector<Operation> operations;
};

// An attribute's values; nothing if it is missing or of another type.
template <class T>
std::optional<std::vector<T>> Values(const Descriptor& of, cudnnBackendAttributeName_t name,
                                     cudnnBackendAttributeType_t type) {
  const auto found = of.attributes.find(name);
  if (found == of.attributes.end() || found->second.type != type) return std::nullopt;
  std::vector<T> values(static_cast<size_t>(found->second.count));
  if (found->second.bytes.size() != values.size() * sizeof(T)) return std::nullopt;
  for (size_t i = 0; i < values.size(); ++i) {
    T value;
    std::memcpy(&value, found->second.bytes.data() + i * sizeof(T), sizeof(T));
    values[i] = value;
  }
  return values;
}
template <class T>
std::optional<T> Value(const Descriptor& of, cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type) {
  const std::optional<std::vector<T>> values = Values<T>(of, name, type);
  return values.has_value() && values->size() == 1 ? std::optional<T>(values->front()) : std::nullopt;
}
const Descriptor* Part(const Descriptor& of, cudnnBackendAttributeName_t name);

// The names of the tensors of each operation that this library knows; those of x, w and y for convolutions.
struct Ports {
  cudnnBackendDescriptorType_t type;
  std::vector<cudnnBackendAttributeName_t> required, optional = {};
};
const Ports* PortsOf(cudnnBackendDescriptorType_t type);
bool IsConvolution(cudnnBackendDescriptorType_t type);

std::optional<Tensor> TensorOf(const Descriptor& d);
// Returns the operation that the descriptor stands for; nothing if the description is wrong.
std::optional<Operation> OperationOf(const Descriptor& d);

}  // namespace snug::core::cuda::fake_cudnn
