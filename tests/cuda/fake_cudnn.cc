#include "tests/cuda/fake_cudnn.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <optional>
#include <utility>

#include "tests/cuda/fake_numbers.h"

namespace snug::core::cuda::fake_cudnn {
namespace {

constexpr int64_t kTooMuch = int64_t{1} << 40;
constexpr int64_t kSome = 64;
constexpr int64_t kAlignment = 16;

// The engines, by number.
enum Engine { kGreedy = 5, kUnsteady = 7, kRounding = 3, kBest = 1, kModest = 2, kLast = 9 };

std::vector<cudnnBackendNumericalNote_t> NotesOf(int engine) {
  if (engine == kUnsteady) return {CUDNN_NUMERICAL_NOTE_TENSOR_CORE, CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC};
  if (engine == kRounding) return {CUDNN_NUMERICAL_NOTE_TENSOR_CORE};
  return {};
}
int64_t WorkspaceOf(int engine) { return engine == kGreedy ? kTooMuch : engine == kModest ? 0 : kSome; }

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

}  // namespace

struct Program {
  std::vector<Operation> operations;
};

namespace {

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

// The names of the tensors of each operation that this library knows; those of x, w and y for convolutions.
struct Ports {
  cudnnBackendDescriptorType_t type;
  std::vector<cudnnBackendAttributeName_t> required, optional = {};
};
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

// Returns the operation that the descriptor stands for; nothing if the description is wrong.
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

cudnnStatus_t FinishGraph(Descriptor& d) {
  const auto parts = Values<cudnnBackendDescriptor_t>(d, CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR);
  if (!parts.has_value() || parts->empty()) return CUDNN_STATUS_BAD_PARAM;
  auto program = std::make_shared<Program>();
  for (cudnnBackendDescriptor_t const part : *parts) {
    const auto& operation = *static_cast<const Descriptor*>(part);
    if (!operation.finished) return CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED;
    program->operations.push_back(*OperationOf(operation));
  }
  d.program = std::move(program);
  return CUDNN_STATUS_SUCCESS;
}

std::vector<int> Recommended(cudnnBackendHeurMode_t mode) {
  if (mode == CUDNN_HEUR_MODE_A) return {kGreedy, kUnsteady, kRounding, kBest, kModest};
  return {kLast};
}

// --- What a program does ---

DType TypeOf(cudnnDataType_t type) { return type == CUDNN_DATA_BFLOAT16 ? DType::kBFloat16 : DType::kFloat32; }

// Where the numbers of tensors lie while a program runs: in the caller's memory, or in memory of its own.
class Places {
 public:
  explicit Places(const std::map<int64_t, void*>& given) : given_(given) {}

  std::byte* At(const Tensor& tensor) {
    if (!tensor.is_virtual) return static_cast<std::byte*>(given_.at(tensor.uid));
    std::shared_ptr<std::vector<std::byte>>& own = own_[tensor.uid];
    if (own == nullptr) own = std::make_shared<std::vector<std::byte>>(static_cast<size_t>(tensor.span()) * 4);
    return own->data();
  }
  // From now on y's numbers are x's.
  void Alias(const Tensor& x, const Tensor& y) {
    // The types between operations may differ; then the numbers have to be converted.
    if (x.is_virtual && y.is_virtual && x.type == y.type) {
      At(x);
      own_[y.uid] = own_[x.uid];
      return;
    }
    std::byte* const from = At(x);
    std::byte* const to = At(y);
    for (int64_t i = 0; i < x.span(); ++i) PutNumber(to, TypeOf(y.type), i, NumberAt(from, TypeOf(x.type), i));
  }

 private:
  const std::map<int64_t, void*>& given_;
  std::map<int64_t, std::shared_ptr<std::vector<std::byte>>> own_;
};

// Calls visit(index) for each index of the dimensions, the last of which moves first.
template <class Visit>
void ForEachIndex(const Dims& dims, const Visit& visit) {
  Dims index(dims.size(), 0);
  for (;;) {
    visit(index);
    size_t axis = dims.size();
    while (axis > 0 && ++index[axis - 1] == dims[axis - 1]) index[--axis] = 0;
    if (axis == 0) return;
  }
}

int64_t Offset(const Tensor& tensor, const Dims& index) {  // an axis of size 1 broadcasts
  int64_t offset = 0;
  for (size_t i = 0; i < index.size(); ++i) offset += tensor.dims[i] == 1 ? 0 : index[i] * tensor.strides[i];
  return offset;
}

// A tensor with where it lies.
struct Placed {
  const Tensor* tensor;
  std::byte* data;
  double Get(const Dims& index) const { return NumberAt(data, TypeOf(tensor->type), Offset(*tensor, index)); }
  void Put(const Dims& index, double value) const {
    PutNumber(data, TypeOf(tensor->type), Offset(*tensor, index), value);
  }
};

// A tensor's numbers, each at its offset, and its axes: images, channels and three spatial ones, of which those that
// the tensor lacks have one element.
struct Numbers {
  std::array<int64_t, 5> dims = {1, 1, 1, 1, 1};
  std::array<int64_t, 5> strides = {};
  std::vector<double> values;
};

Numbers NumbersOf(const Tensor& tensor) {
  Numbers numbers;
  const size_t lacking = numbers.dims.size() - tensor.rank();
  for (size_t i = 0; i < tensor.rank(); ++i) {
    const size_t axis = i < 2 ? i : i + lacking;
    numbers.dims[axis] = tensor.dims[i];
    numbers.strides[axis] = tensor.strides[i];
  }
  numbers.values.resize(static_cast<size_t>(tensor.span()));
  return numbers;
}
Numbers Read(const Placed& placed, bool rounds) {
  Numbers numbers = NumbersOf(*placed.tensor);
  const DType dtype = TypeOf(placed.tensor->type);
  for (size_t i = 0; i < numbers.values.size(); ++i) {
    const double number = NumberAt(placed.data, dtype, static_cast<int64_t>(i));
    numbers.values[i] = rounds && dtype == DType::kFloat32 ? RoundedToTf32(number) : number;
  }
  return numbers;
}

std::array<int64_t, 3> SpatialOf(const Dims& values, int64_t lacking) {
  std::array<int64_t, 3> spatial = {lacking, lacking, lacking};
  std::copy(values.begin(), values.end(), spatial.end() - static_cast<int64_t>(values.size()));
  return spatial;
}

// Calls visit(x, w, y) with the offsets of all that are multiplied with each other, or to which such a product is
// added. Training a network multiplies thousands of millions of numbers, so this is a plain nest of loops.
template <class Visit>
void ForEachProduct(const Operation& op, const Numbers& x, const Numbers& w, const Numbers& y, const Visit& visit) {
  const std::array<int64_t, 3> pad = SpatialOf(op.pad_begin, 0), stride = SpatialOf(op.stride, 1),
                               dilation = SpatialOf(op.dilation, 1);
  const int64_t filters = w.dims[0] / (x.dims[1] / w.dims[1]);  // of a group
  const auto at = [](const Numbers& of, std::array<int64_t, 5> index) {
    int64_t offset = 0;
    for (size_t i = 0; i < index.size(); ++i) offset += index[i] * of.strides[i];
    return offset;
  };
  const auto taps = [&](int64_t n, int64_t k, int64_t d, int64_t h, int64_t v) {
    const int64_t y_at = at(y, {n, k, d, h, v});
    for (int64_t c = 0; c < w.dims[1]; ++c) {
      for (int64_t i = 0; i < w.dims[2]; ++i) {
        const int64_t x_d = d * stride[0] - pad[0] + i * dilation[0];
        if (x_d < 0 || x_d >= x.dims[2]) continue;
        for (int64_t j = 0; j < w.dims[3]; ++j) {
          const int64_t x_h = h * stride[1] - pad[1] + j * dilation[1];
          if (x_h < 0 || x_h >= x.dims[3]) continue;
          const int64_t x_row = at(x, {n, k / filters * w.dims[1] + c, x_d, x_h, 0});
          const int64_t w_row = at(w, {k, c, i, j, 0});
          for (int64_t l = 0; l < w.dims[4]; ++l) {
            const int64_t x_w = v * stride[2] - pad[2] + l * dilation[2];
            if (x_w < 0 || x_w >= x.dims[4]) continue;
            visit(static_cast<size_t>(x_row + x_w * x.strides[4]), static_cast<size_t>(w_row + l * w.strides[4]),
                  static_cast<size_t>(y_at));
          }
        }
      }
    }
  };
  for (int64_t n = 0; n < y.dims[0]; ++n) {
    for (int64_t k = 0; k < y.dims[1]; ++k) {
      for (int64_t d = 0; d < y.dims[2]; ++d) {
        for (int64_t h = 0; h < y.dims[3]; ++h) {
          for (int64_t v = 0; v < y.dims[4]; ++v) taps(n, k, d, h, v);
        }
      }
    }
  }
}

void DoConvolution(const Operation& op, const Placed& x, const Placed& w, const Placed& y, bool rounds) {
  const bool to_x = op.type == CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR;
  const bool to_w = op.type == CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR;
  const bool to_y = !to_x && !to_w;
  Numbers from_x = to_x ? NumbersOf(*x.tensor) : Read(x, rounds);
  Numbers from_w = to_w ? NumbersOf(*w.tensor) : Read(w, rounds);
  Numbers from_y = to_y ? NumbersOf(*y.tensor) : Read(y, rounds);
  double* const xs = from_x.values.data();
  double* const ws = from_w.values.data();
  double* const ys = from_y.values.data();
  if (to_x) {
    ForEachProduct(op, from_x, from_w, from_y, [=](size_t i, size_t j, size_t k) { xs[i] += ys[k] * ws[j]; });
  } else if (to_w) {
    ForEachProduct(op, from_x, from_w, from_y, [=](size_t i, size_t j, size_t k) { ws[j] += xs[i] * ys[k]; });
  } else {
    ForEachProduct(op, from_x, from_w, from_y, [=](size_t i, size_t j, size_t k) { ys[k] += xs[i] * ws[j]; });
  }
  const Placed& result = to_x ? x : to_w ? w : y;
  const double* const sums = to_x ? xs : to_w ? ws : ys;
  ForEachIndex(result.tensor->dims, [&](const Dims& index) { result.Put(index, sums[Offset(*result.tensor, index)]); });
}

double DoOne(const Operation& op, const Dims& index, double x, double b, double t) {
  switch (op.mode) {
    case CUDNN_POINTWISE_ADD:
      return x + b;
    case CUDNN_POINTWISE_SUB:
      return x - b;
    case CUDNN_POINTWISE_MUL:
      return x * b;
    case CUDNN_POINTWISE_DIV:
      return x / b;
    case CUDNN_POINTWISE_CMP_GE:
      return x >= b ? 1 : 0;
    case CUDNN_POINTWISE_EXP:
      return std::exp(x);
    case CUDNN_POINTWISE_LOG:
      return std::log(x);
    case CUDNN_POINTWISE_RELU_FWD:
      return x > 0 ? x : 0;
    case CUDNN_POINTWISE_GEN_INDEX:
      return static_cast<double>(index[static_cast<size_t>(op.axis)]);
    case CUDNN_POINTWISE_BINARY_SELECT:
      return t != 0 ? x : b;
    default:
      return x;
  }
}

void Do(const Operation& op, Places& places, bool rounds) {
  const auto placed = [&](cudnnBackendAttributeName_t name) {
    const Tensor& tensor = op.tensors.at(name);
    return Placed{&tensor, places.At(tensor)};
  };
  const auto has = [&](cudnnBackendAttributeName_t name) { return op.tensors.count(name) > 0; };
  if (IsConvolution(op.type)) {
    const Ports& ports = *PortsOf(op.type);
    DoConvolution(op, placed(ports.required[0]), placed(ports.required[1]), placed(ports.required[2]), rounds);
  } else if (op.type == CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR) {
    const Placed x = placed(CUDNN_ATTR_OPERATION_POINTWISE_XDESC);
    const Placed y = placed(CUDNN_ATTR_OPERATION_POINTWISE_YDESC);
    const Placed b = has(CUDNN_ATTR_OPERATION_POINTWISE_BDESC) ? placed(CUDNN_ATTR_OPERATION_POINTWISE_BDESC) : x;
    const Placed t = has(CUDNN_ATTR_OPERATION_POINTWISE_TDESC) ? placed(CUDNN_ATTR_OPERATION_POINTWISE_TDESC) : x;
    ForEachIndex(y.tensor->dims,
                 [&](const Dims& index) { y.Put(index, DoOne(op, index, x.Get(index), b.Get(index), t.Get(index))); });
  } else if (op.type == CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR) {
    const Placed a = placed(CUDNN_ATTR_OPERATION_MATMUL_ADESC);
    const Placed b = placed(CUDNN_ATTR_OPERATION_MATMUL_BDESC);
    const Placed c = placed(CUDNN_ATTR_OPERATION_MATMUL_CDESC);
    const size_t r = c.tensor->rank();
    ForEachIndex(c.tensor->dims, [&](const Dims& index) {
      Dims at_a = index;
      Dims at_b = index;
      double sum = 0;
      for (int64_t i = 0; i < a.tensor->dims[r - 1]; ++i) {
        at_a[r - 1] = i;
        at_b[r - 2] = i;
        sum += a.Get(at_a) * b.Get(at_b);
      }
      c.Put(index, sum);
    });
  } else if (op.type == CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR) {
    const Placed x = placed(CUDNN_ATTR_OPERATION_REDUCTION_XDESC);
    const Placed y = placed(CUDNN_ATTR_OPERATION_REDUCTION_YDESC);
    const bool adds = op.reduction == CUDNN_REDUCE_TENSOR_ADD;
    std::map<int64_t, double> results;
    ForEachIndex(x.tensor->dims, [&](const Dims& index) {
      const auto [at, is_new] = results.emplace(Offset(*y.tensor, index), x.Get(index));
      if (!is_new) at->second = adds ? at->second + x.Get(index) : std::max(at->second, x.Get(index));
    });
    for (const auto& [offset, result] : results) PutNumber(y.data, TypeOf(y.tensor->type), offset, result);
  } else {
    places.Alias(op.tensors.at(CUDNN_ATTR_OPERATION_RESHAPE_XDESC), op.tensors.at(CUDNN_ATTR_OPERATION_RESHAPE_YDESC));
  }
}

// Says whether a graph that has products of matrices reads and writes rows that begin at multiples of 16 bytes. The
// real library takes that for granted.
bool RowsAreAligned(const Program& program) {
  const bool products = std::any_of(program.operations.begin(), program.operations.end(), [](const Operation& op) {
    return op.type == CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR;
  });
  for (const Operation& op : program.operations) {
    for (const auto& [name, tensor] : op.tensors) {
      if (!products || tensor.is_virtual || tensor.type != CUDNN_DATA_BFLOAT16) continue;
      for (size_t i = 0; i < tensor.rank(); ++i) {
        if (tensor.dims[i] > 1 && tensor.strides[i] != 1 && tensor.strides[i] * 2 % kAlignment != 0) return false;
      }
    }
  }
  return true;
}

bool Adds(const Program& program) {  // a convolution with something after it
  return program.operations.size() > 1 && IsConvolution(program.operations.front().type);
}

}  // namespace

cudnnStatus_t Set(Descriptor& to, cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, int64_t count,
                  const void* values) {
  if (to.finished) return CUDNN_STATUS_BAD_PARAM;
  size_t size = sizeof(int64_t);
  if (type == CUDNN_TYPE_BOOLEAN) size = sizeof(bool);
  if (type == CUDNN_TYPE_FLOAT) size = sizeof(float);
  const bool is_enum = type == CUDNN_TYPE_DATA_TYPE || type == CUDNN_TYPE_CONVOLUTION_MODE ||
                       type == CUDNN_TYPE_HEUR_MODE || type == CUDNN_TYPE_POINTWISE_MODE ||
                       type == CUDNN_TYPE_REDUCTION_OPERATOR_TYPE;
  if (is_enum) size = sizeof(int);
  const auto* const bytes = static_cast<const std::byte*>(values);
  to.attributes[name] = {type, count, {bytes, bytes + static_cast<size_t>(count) * size}};
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t Get(const Descriptor& from, cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                  int64_t room, int64_t* count, void* values) {
  if (!from.finished) return CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED;
  switch (name) {
    case CUDNN_ATTR_ENGINEHEUR_RESULTS: {
      const std::vector<int> engines =
          Recommended(*Value<cudnnBackendHeurMode_t>(from, CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE));
      *count = static_cast<int64_t>(engines.size());
      for (int64_t i = 0; i < std::min(room, *count); ++i) {
        auto& config = *static_cast<Descriptor*>(static_cast<cudnnBackendDescriptor_t*>(values)[i]);
        if (config.type != CUDNN_BACKEND_ENGINECFG_DESCRIPTOR) return CUDNN_STATUS_BAD_PARAM;
        config.finished = true;
        config.program = from.program;
        config.engine = engines[static_cast<size_t>(i)];
      }
      return CUDNN_STATUS_SUCCESS;
    }
    case CUDNN_ATTR_ENGINECFG_ENGINE: {
      auto& engine = *static_cast<Descriptor*>(*static_cast<cudnnBackendDescriptor_t*>(values));
      if (engine.type != CUDNN_BACKEND_ENGINE_DESCRIPTOR || room != 1) return CUDNN_STATUS_BAD_PARAM;
      engine.finished = true;
      engine.engine = from.engine;
      *count = 1;
      return CUDNN_STATUS_SUCCESS;
    }
    case CUDNN_ATTR_ENGINE_GLOBAL_INDEX:
      if (type != CUDNN_TYPE_INT64 || room != 1) return CUDNN_STATUS_BAD_PARAM;
      *static_cast<int64_t*>(values) = from.engine;
      *count = 1;
      return CUDNN_STATUS_SUCCESS;
    case CUDNN_ATTR_ENGINE_NUMERICAL_NOTE: {
      const std::vector<cudnnBackendNumericalNote_t> notes = NotesOf(from.engine);
      *count = static_cast<int64_t>(notes.size());
      std::copy_n(notes.begin(), std::min(room, *count), static_cast<cudnnBackendNumericalNote_t*>(values));
      return CUDNN_STATUS_SUCCESS;
    }
    case CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE:
      if (type != CUDNN_TYPE_INT64 || room != 1) return CUDNN_STATUS_BAD_PARAM;
      *static_cast<int64_t*>(values) = WorkspaceOf(from.engine);
      *count = 1;
      return CUDNN_STATUS_SUCCESS;
    default:
      return CUDNN_STATUS_BAD_PARAM;
  }
}

cudnnStatus_t Finish(Descriptor& d, FakeLibraries libraries) {
  if (d.finished) return CUDNN_STATUS_BAD_PARAM;
  cudnnStatus_t status = CUDNN_STATUS_SUCCESS;
  if (d.type == CUDNN_BACKEND_TENSOR_DESCRIPTOR) {
    if (!TensorOf(d).has_value()) status = CUDNN_STATUS_BAD_PARAM;
  } else if (PortsOf(d.type) != nullptr) {
    if (!OperationOf(d).has_value()) status = CUDNN_STATUS_BAD_PARAM;
  } else if (d.type == CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR) {
    if (d.attributes.count(CUDNN_ATTR_OPERATIONGRAPH_HANDLE) == 0) return CUDNN_STATUS_BAD_PARAM;
    status = FinishGraph(d);
    // What it serves alone, it refuses with an activation as a graph, and with a bias when it is asked for engines.
    const bool refused = status == CUDNN_STATUS_SUCCESS && libraries == FakeLibraries::kServeUnfused &&
                         Adds(*d.program) && d.program->operations.size() > 2;
    if (refused) return CUDNN_STATUS_NOT_SUPPORTED;
  } else if (d.type == CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR) {
    const Descriptor* const graph = Part(d, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH);
    if (graph == nullptr || d.attributes.count(CUDNN_ATTR_ENGINEHEUR_MODE) == 0) return CUDNN_STATUS_BAD_PARAM;
    if (libraries == FakeLibraries::kRefuse) return CUDNN_STATUS_NOT_SUPPORTED_LAYOUT;
    if (libraries == FakeLibraries::kServeUnfused && Adds(*graph->program)) return CUDNN_STATUS_NOT_SUPPORTED;
    if (!RowsAreAligned(*graph->program)) return CUDNN_STATUS_NOT_SUPPORTED;
    d.program = graph->program;
  } else if (d.type == CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR) {
    const Descriptor* const config = Part(d, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG);
    if (config == nullptr || d.attributes.count(CUDNN_ATTR_EXECUTION_PLAN_HANDLE) == 0) return CUDNN_STATUS_BAD_PARAM;
    d.program = config->program;
    d.engine = config->engine;
  }
  d.finished = status == CUDNN_STATUS_SUCCESS;
  return status;
}

cudnnStatus_t Bind(const Descriptor& plan, const Descriptor& pack, FakeLibraries libraries,
                   std::function<void()>* work) {
  if (!plan.finished || !pack.finished) return CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED;
  if (libraries == FakeLibraries::kServeOthers && plan.engine == kBest) return CUDNN_STATUS_NOT_SUPPORTED;
  const auto uids = Values<int64_t>(pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64);
  const auto pointers = Values<void*>(pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR);
  const auto room = Value<void*>(pack, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR);
  if (!uids.has_value() || !pointers.has_value() || uids->size() != pointers->size() || !room.has_value()) {
    return CUDNN_STATUS_BAD_PARAM;
  }
  const int64_t workspace_bytes = WorkspaceOf(plan.engine);
  if (workspace_bytes > 0 && *room == nullptr) return CUDNN_STATUS_BAD_PARAM_NULL_POINTER;
  std::map<int64_t, void*> given;
  for (size_t i = 0; i < uids->size(); ++i) given[(*uids)[i]] = (*pointers)[i];
  std::map<int64_t, float> scalars;  // are read now, not when the stream comes to it
  size_t known = 0;
  std::map<int64_t, bool> seen;
  for (const Operation& op : plan.program->operations) {
    for (const auto& [name, tensor] : op.tensors) {
      if (tensor.is_virtual || !seen.emplace(tensor.uid, true).second) continue;
      ++known;
      const auto found = given.find(tensor.uid);
      if (found == given.end() || found->second == nullptr) return CUDNN_STATUS_BAD_PARAM_NULL_POINTER;
      if (tensor.by_value) {
        scalars[tensor.uid] = *static_cast<const float*>(found->second);
      } else if (reinterpret_cast<uintptr_t>(found->second) % kAlignment != 0) {
        return CUDNN_STATUS_BAD_PARAM_MISALIGNED_POINTER;
      }
    }
  }
  if (known != given.size()) return CUDNN_STATUS_BAD_PARAM;  // it was told of tensors that it does not know
  *work = [program = plan.program, given, scalars, room = *room, workspace_bytes,
           rounds = plan.engine == kRounding]() mutable {
    if (workspace_bytes > 0) std::memset(room, 0xab, static_cast<size_t>(workspace_bytes));
    for (auto& [uid, scalar] : scalars) given[uid] = &scalar;
    Places places(given);
    for (const Operation& op : program->operations) Do(op, places, rounds);
  };
  return CUDNN_STATUS_SUCCESS;
}

}  // namespace snug::core::cuda::fake_cudnn
