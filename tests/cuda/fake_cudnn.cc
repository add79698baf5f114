#include "tests/cuda/fake_cudnn.h"

#include <cstring>
#include <memory>
#include <vector>

#include "tests/cuda/fake_numbers.h"

namespace snug::core::cuda::fake_cudnn {
namespace {

constexpr size_t kTooMuch = size_t{1} << 40;
constexpr size_t kSome = 64;

// Returns where an element lies.
int64_t Offset(const Tensor& t, int n, int c, int h, int w) {
  const auto [dim_n, dim_c, dim_h, dim_w] = t.dims;
  const int64_t at = t.format == CUDNN_TENSOR_NHWC ? ((int64_t{n} * dim_h + h) * dim_w + w) * dim_c + c
                                                   : ((int64_t{n} * dim_c + c) * dim_h + h) * dim_w + w;
  return at;
}
int64_t Count(const Tensor& t) { return int64_t{t.dims[0]} * t.dims[1] * t.dims[2] * t.dims[3]; }

DType TypeOf(cudnnDataType_t type) { return type == CUDNN_DATA_FLOAT ? DType::kFloat32 : DType::kBFloat16; }

// Calls visit(x element, w element, y element) for each product of the convolution.
template <class Visit>
void ForEachProduct(const Call& call, const Visit& visit) {
  const Tensor &x = call.x, &w = call.w, &y = call.y;
  const Convolution& c = call.conv;
  const int filters = w.dims[0] / c.groups;
  for (int n = 0; n < y.dims[0]; ++n) {
    for (int k = 0; k < y.dims[1]; ++k) {
      for (int h = 0; h < y.dims[2]; ++h) {
        for (int v = 0; v < y.dims[3]; ++v) {
          for (int channel = 0; channel < w.dims[1]; ++channel) {
            for (int r = 0; r < w.dims[2]; ++r) {
              for (int q = 0; q < w.dims[3]; ++q) {
                const int in_h = h * c.stride[0] - c.pad[0] + r * c.dilation[0];
                const int in_w = v * c.stride[1] - c.pad[1] + q * c.dilation[1];
                if (in_h < 0 || in_h >= x.dims[2] || in_w < 0 || in_w >= x.dims[3]) continue;
                const int in_channel = k / filters * w.dims[1] + channel;
                visit(Offset(x, n, in_channel, in_h, in_w), Offset(w, k, channel, r, q), Offset(y, n, k, h, v));
              }
            }
          }
        }
      }
    }
  }
}

void Compute(const Call& call, double alpha) {
  const cudnnDataType_t type = call.x.type;
  const bool rounds = type == CUDNN_DATA_FLOAT && call.conv.math != CUDNN_FMA_MATH;
  const auto value = [&](const void* data, int64_t i) {
    return rounds ? RoundedToTf32(NumberAt(data, TypeOf(type), i)) : NumberAt(data, TypeOf(type), i);
  };
  const Tensor& result = call.kind == Kind::kForward ? call.y : call.kind == Kind::kGradInput ? call.x : call.w;
  std::vector<double> sums(static_cast<size_t>(Count(result)));
  ForEachProduct(call, [&](int64_t x, int64_t w, int64_t y) {
    switch (call.kind) {
      case Kind::kForward:
        sums[static_cast<size_t>(y)] += value(call.data, x) * value(call.factor, w);
        break;
      case Kind::kGradInput:
        sums[static_cast<size_t>(x)] += value(call.data, y) * value(call.factor, w);
        break;
      case Kind::kGradWeight:
        sums[static_cast<size_t>(w)] += value(call.data, x) * value(call.factor, y);
        break;
    }
  });
  const int64_t pixels = int64_t{result.dims[2]} * result.dims[3];
  for (size_t i = 0; i < sums.size(); ++i) {
    double sum = alpha * sums[i];
    if (call.activation != nullptr) {
      const auto index = static_cast<int64_t>(i);
      const int64_t channel =
          result.format == CUDNN_TENSOR_NHWC ? index % result.dims[1] : index / pixels % result.dims[1];
      sum += NumberAt(call.bias, TypeOf(type), channel);
      if (call.activation->mode == CUDNN_ACTIVATION_RELU && sum < 0) sum = 0;
    }
    PutNumber(call.result, TypeOf(type), static_cast<int64_t>(i), sum);
  }
}

}  // namespace

cudnnStatus_t Check(Kind /*kind*/, const Tensor& x, const Tensor& w, const Tensor& y, const Convolution& c) {
  const bool types = x.type == w.type && x.type == y.type && c.compute == CUDNN_DATA_FLOAT &&
                     (x.type == CUDNN_DATA_FLOAT || x.type == CUDNN_DATA_BFLOAT16);
  const bool math = x.type == CUDNN_DATA_FLOAT || c.math == CUDNN_TENSOR_OP_MATH;
  if (!types || !math || x.format != w.format || x.format != y.format) return CUDNN_STATUS_NOT_SUPPORTED;
  bool fits = x.dims[0] == y.dims[0] && w.dims[0] == y.dims[1] && x.dims[1] == w.dims[1] * c.groups &&
              w.dims[0] % c.groups == 0 && c.mode == CUDNN_CROSS_CORRELATION;
  for (size_t i = 0; i < 2; ++i) {
    const int span = (w.dims[i + 2] - 1) * c.dilation[i] + 1;
    fits &= 1 + (x.dims[i + 2] + 2 * c.pad[i] - span) / c.stride[i] == y.dims[i + 2];
  }
  return fits ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_BAD_PARAM;
}

size_t WorkspaceBytes(Kind kind, int algorithm) {
  const bool best = algorithm == 1;
  if (kind == Kind::kForward && algorithm == 0) return 0;
  return best ? kSome : kTooMuch;
}

cudnnStatus_t Bind(const Call& call, std::function<void()>* work) {
  if (const cudnnStatus_t status = Check(call.kind, call.x, call.w, call.y, call.conv);
      status != CUDNN_STATUS_SUCCESS) {
    return status;
  }
  const size_t bytes = WorkspaceBytes(call.kind, call.algorithm);
  if (call.workspace_bytes < bytes || (bytes > 0 && call.workspace == nullptr)) return CUDNN_STATUS_BAD_PARAM;
  if (call.activation != nullptr) {
    const std::array<int, 4> expected = {1, call.w.dims[0], 1, 1};
    const bool adds = call.activation->mode == CUDNN_ACTIVATION_RELU ||
                      call.algorithm == CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM;
    if (!adds) return CUDNN_STATUS_NOT_SUPPORTED;
    if (call.bias_type.dims != expected || call.bias_type.type != call.x.type) return CUDNN_STATUS_BAD_PARAM;
  }
  const double alpha = *static_cast<const float*>(call.alpha);
  if (*static_cast<const float*>(call.beta) != 0) return CUDNN_STATUS_NOT_SUPPORTED;
  std::shared_ptr<const Activation> activation;
  if (call.activation != nullptr) activation = std::make_shared<const Activation>(*call.activation);
  *work = [bound = Call(call), alpha, activation]() mutable {
    bound.activation = activation.get();
    if (bound.workspace_bytes > 0) std::memset(bound.workspace, 0xab, bound.workspace_bytes);
    Compute(bound, alpha);
  };
  return CUDNN_STATUS_SUCCESS;
}

}  // namespace snug::core::cuda::fake_cudnn
