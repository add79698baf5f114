#include "tests/cuda/cudnn/operations.h"

#include <algorithm>
#include <utility>

namespace snug::core::cuda::fake_cudnn {

const Descriptor* Part(const Descriptor& of, cudnnBackendAttributeName_t name) {
  const auto handle = Value<cudnnBackendDescriptor_t>(of, name, CUDNN_TYPE_BACKEND_DESCRIPTOR);
  const auto* const part = handle.has_value() ? static_cast<const Descriptor*>(*handle) : nullptr;
  return part != nullptr && part->finished ? part : nullptr;
}

std::optional<Tensor> TensorOf(const Descriptor& d) {
  if (d.type != CUDNN_BACKEND_TENSOR_DESCRIPTOR) return std::nullopt;
  const auto uid = Value<int64_t>(d, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64);
  const auto type = Value<cudnnDataType_t>(d, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE);
  const auto dims = Values<int64_t>(d, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64);
  const auto strides = Values<int64_t>(d, CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64);
  const auto alignment = Value<int64_t>(d, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64);
  if (!uid.has_value() || !type.has_value() || !dims.has_value() || !strides.has_value() || alignment != kAlignment) {
    return std::nullopt;
  }
  const bool right = dims->size() == strides->size() && dims->size() >= 3 &&
                     std::all_of(dims->begin(), dims->end(), [](int64_t dim) { return dim > 0; }) &&
                     std::all_of(strides->begin(), strides->end(), [](int64_t stride) { return stride > 0; });
  if (!right) return std::nullopt;
  return Tensor{*uid,
                *type,
                *dims,
                *strides,
                Value<bool>(d, CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN).value_or(false),
                Value<bool>(d, CUDNN_ATTR_TENSOR_IS_BY_VALUE, CUDNN_TYPE_BOOLEAN).value_or(false)};
}

const Ports* PortsOf(cudnnBackendDescriptorType_t type) {
  static const std::vector<Ports>* const kAll = new std::vector<Ports>{
      {CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
       {CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
        CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y}},
      {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
       {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
        CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY}},
      {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
       {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
        CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY}},
      {CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR,
       {CUDNN_ATTR_OPERATION_POINTWISE_XDESC, CUDNN_ATTR_OPERATION_POINTWISE_YDESC},
       {CUDNN_ATTR_OPERATION_POINTWISE_BDESC, CUDNN_ATTR_OPERATION_POINTWISE_TDESC}},
      {CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR,
       {CUDNN_ATTR_OPERATION_MATMUL_ADESC, CUDNN_ATTR_OPERATION_MATMUL_BDESC, CUDNN_ATTR_OPERATION_MATMUL_CDESC}},
      {CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR,
       {CUDNN_ATTR_OPERATION_REDUCTION_XDESC, CUDNN_ATTR_OPERATION_REDUCTION_YDESC}},
      {CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR,
       {CUDNN_ATTR_OPERATION_RESHAPE_XDESC, CUDNN_ATTR_OPERATION_RESHAPE_YDESC}}};
  for (const Ports& ports : *kAll) {
    if (ports.type == type) return &ports;
  }
  return nullptr;
}

bool IsConvolution(cudnnBackendDescriptorType_t type) {
  return type == CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR ||
         type == CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR ||
         type == CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR;
}

namespace {

// Reads how the convolution is described, and checks it.
bool ReadConvolution(const Descriptor& d, Operation* to) {
  struct Names {
    cudnnBackendAttributeName_t conv, alpha, beta;
  };
  const Names names =
      d.type == CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR
          ? Names{CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
                  CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA}
      : d.type == CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR
          ? Names{CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
                  CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA}
          : Names{CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
                  CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA};
  const Descriptor* const conv = Part(d, names.conv);
  if (conv == nullptr || conv->type != CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR) return false;
  if (Value<float>(d, names.alpha, CUDNN_TYPE_FLOAT) != 1.0F || Value<float>(d, names.beta, CUDNN_TYPE_FLOAT) != 0.0F) {
    return false;
  }
  const Ports& ports = *PortsOf(d.type);
  const Tensor& x = to->tensors.at(ports.required[0]);
  const Tensor& w = to->tensors.at(ports.required[1]);
  const Tensor& y = to->tensors.at(ports.required[2]);
  const auto numbers = [&](cudnnBackendAttributeName_t name) {
    return Values<int64_t>(*conv, name, CUDNN_TYPE_INT64).value_or(Dims());
  };
  to->pad_begin = numbers(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS);
  to->pad_end = numbers(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS);
  to->stride = numbers(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES);
  to->dilation = numbers(CUDNN_ATTR_CONVOLUTION_DILATIONS);
  const auto mode = Value<cudnnConvolutionMode_t>(*conv, CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE);
  const auto compute = Value<cudnnDataType_t>(*conv, CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE);
  const size_t spatial = x.rank() - 2;
  bool fits = mode == CUDNN_CROSS_CORRELATION && compute == CUDNN_DATA_FLOAT &&
              numbers(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS) == Dims{static_cast<int64_t>(spatial)} &&
              w.rank() == x.rank() && y.rank() == x.rank() && (spatial == 2 || spatial == 3) &&
              x.dims[0] == y.dims[0] && w.dims[0] == y.dims[1] && x.dims[1] % w.dims[1] == 0 &&
              w.dims[0] % (x.dims[1] / w.dims[1]) == 0;
  for (const Dims* of : {&to->pad_begin, &to->pad_end, &to->stride, &to->dilation})
    fits = fits && of->size() == spatial;
  for (size_t i = 0; fits && i < spatial; ++i) {
    const int64_t span = (w.dims[i + 2] - 1) * to->dilation[i] + 1;
    fits = 1 + (x.dims[i + 2] + to->pad_begin[i] + to->pad_end[i] - span) / to->stride[i] == y.dims[i + 2];
  }
  return fits;
}

// Says whether `from` broadcasts to `to`.
bool Broadcasts(const Tensor& from, const Tensor& to) {
  if (from.rank() != to.rank()) return false;
  for (size_t i = 0; i < to.rank(); ++i) {
    if (from.dims[i] != 1 && from.dims[i] != to.dims[i]) return false;
  }
  return true;
}

bool ReadPointwise(const Descriptor& d, Operation* to) {
  const Descriptor* const kind = Part(d, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR);
  if (kind == nullptr || kind->type != CUDNN_BACKEND_POINTWISE_DESCRIPTOR) return false;
  const auto mode = Value<cudnnPointwiseMode_t>(*kind, CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE);
  const auto in = Value<cudnnDataType_t>(*kind, CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE);
  if (!mode.has_value() || !in.has_value()) return false;
  to->mode = *mode;
  to->axis = Value<int64_t>(*kind, CUDNN_ATTR_POINTWISE_AXIS, CUDNN_TYPE_INT64).value_or(-1);
  const Tensor& y = to->tensors.at(CUDNN_ATTR_OPERATION_POINTWISE_YDESC);
  for (const auto& [name, tensor] : to->tensors) {
    if (!Broadcasts(tensor, y)) return false;
  }
  const bool b = to->tensors.count(CUDNN_ATTR_OPERATION_POINTWISE_BDESC) > 0;
  const bool t = to->tensors.count(CUDNN_ATTR_OPERATION_POINTWISE_TDESC) > 0;
  switch (*mode) {
    case CUDNN_POINTWISE_ADD:
    case CUDNN_POINTWISE_SUB:
    case CUDNN_POINTWISE_MUL:
    case CUDNN_POINTWISE_DIV:
      return b && !t;
    case CUDNN_POINTWISE_CMP_GE:
      return b && !t && y.type == CUDNN_DATA_BOOLEAN;
    case CUDNN_POINTWISE_EXP:
    case CUDNN_POINTWISE_LOG:
    case CUDNN_POINTWISE_IDENTITY:
    case CUDNN_POINTWISE_RELU_FWD:
      return !b && !t;
    case CUDNN_POINTWISE_GEN_INDEX:
      return !b && !t && to->axis >= 0 && to->axis < static_cast<int64_t>(y.rank()) && y.type == CUDNN_DATA_INT32;
    case CUDNN_POINTWISE_BINARY_SELECT:
      return b && t && to->tensors.at(CUDNN_ATTR_OPERATION_POINTWISE_TDESC).type == CUDNN_DATA_BOOLEAN;
    default:
      return false;
  }
}

bool ReadMatMul(const Descriptor& d, const Operation& op) {
  const Descriptor* const kind = Part(d, CUDNN_ATTR_OPERATION_MATMUL_DESC);
  if (kind == nullptr ||
      Value<cudnnDataType_t>(*kind, CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_TYPE_DATA_TYPE) != CUDNN_DATA_FLOAT) {
    return false;
  }
  const Tensor& a = op.tensors.at(CUDNN_ATTR_OPERATION_MATMUL_ADESC);
  const Tensor& b = op.tensors.at(CUDNN_ATTR_OPERATION_MATMUL_BDESC);
  const Tensor& c = op.tensors.at(CUDNN_ATTR_OPERATION_MATMUL_CDESC);
  const size_t r = c.rank();
  if (a.rank() != r || b.rank() != r) return false;
  for (size_t i = 0; i + 2 < r; ++i) {
    if (a.dims[i] != c.dims[i] || b.dims[i] != c.dims[i]) return false;
  }
  // Products multiply numbers of the same type.
  return a.type == b.type && a.dims[r - 2] == c.dims[r - 2] && b.dims[r - 1] == c.dims[r - 1] &&
         a.dims[r - 1] == b.dims[r - 2];
}

bool ReadReduction(const Descriptor& d, Operation* to) {
  const Descriptor* const kind = Part(d, CUDNN_ATTR_OPERATION_REDUCTION_DESC);
  if (kind == nullptr) return false;
  const auto op =
      Value<cudnnReduceTensorOp_t>(*kind, CUDNN_ATTR_REDUCTION_OPERATOR, CUDNN_TYPE_REDUCTION_OPERATOR_TYPE);
  if (op != CUDNN_REDUCE_TENSOR_ADD && op != CUDNN_REDUCE_TENSOR_MAX) return false;
  to->reduction = *op;
  return Broadcasts(to->tensors.at(CUDNN_ATTR_OPERATION_REDUCTION_YDESC),
                    to->tensors.at(CUDNN_ATTR_OPERATION_REDUCTION_XDESC));
}

}  // namespace

std::optional<Operation> OperationOf(const Descriptor& d) {
  const Ports* const ports = PortsOf(d.type);
  if (ports == nullptr) return std::nullopt;
  Operation op{d.type};
  for (const auto& [names, required] : {std::pair{&ports->required, true}, std::pair{&ports->optional, false}}) {
    for (const cudnnBackendAttributeName_t name : *names) {
      const Descriptor* const part = Part(d, name);
      const std::optional<Tensor> tensor = part != nullptr ? TensorOf(*part) : std::nullopt;
      if (tensor.has_value()) op.tensors.emplace(name, *tensor);
      if (required && !tensor.has_value()) return std::nullopt;
    }
  }
  bool right = true;
  if (IsConvolution(d.type)) right = ReadConvolution(d, &op);
  if (d.type == CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR) right = ReadPointwise(d, &op);
  if (d.type == CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR) right = ReadMatMul(d, op);
  if (d.type == CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR) right = ReadReduction(d, &op);
  if (d.type == CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR) {
    const Tensor& x = op.tensors.at(CUDNN_ATTR_OPERATION_RESHAPE_XDESC);
    const Tensor& y = op.tensors.at(CUDNN_ATTR_OPERATION_RESHAPE_YDESC);
    right = x.elements() == y.elements() && x.span() == y.span();
  }
  return right ? std::optional<Operation>(std::move(op)) : std::nullopt;
}

}  // namespace snug::core::cuda::fake_cudnn
