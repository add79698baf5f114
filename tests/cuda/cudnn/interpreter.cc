#include "tests/cuda/cudnn/interpreter.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <memory>

#include "tests/cuda/fake_numbers.h"

namespace snug::core::cuda::fake_cudnn {
namespace {

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

}  // namespace

void Interpret(const Program& program, const std::map<int64_t, void*>& given, bool rounds) {
  Places places(given);
  for (const Operation& op : program.operations) Do(op, places, rounds);
}

}  // namespace snug::core::cuda::fake_cudnn
