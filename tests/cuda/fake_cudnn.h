// A pretended cuDNN. It convolves on the host what it was told to, by the documentation alone: formats, groups,
// dilations, symmetric padding. A wrong description gives wrong numbers. Its heuristics list first what must not be
// taken: algorithms that add up in any sequence, and those that want more workspace than there is.
#pragma once

#include <array>
#include <functional>

#include "engine/cuda/cuda_table.h"

namespace snug::core::cuda::fake_cudnn {

// The descriptors stand for these here.
struct Tensor {
  cudnnTensorFormat_t format;
  cudnnDataType_t type;
  std::array<int, 4> dims;  // [n, c, h, w] or [k, c, h, w]
};
struct Convolution {
  std::array<int, 2> pad, stride, dilation;
  cudnnConvolutionMode_t mode;
  cudnnDataType_t compute;
  int groups = 1;
  cudnnMathType_t math = CUDNN_DEFAULT_MATH;
};
struct Activation {
  cudnnActivationMode_t mode;
};

enum class Kind { kForward, kGradInput, kGradWeight };

struct Call {
  Kind kind = Kind::kForward;
  Tensor x, w, y;
  Convolution conv;
  const void *data = nullptr, *factor = nullptr;  // x and w, dy and w, or x and dy
  void* result = nullptr;
  int algorithm = 0;
  void* workspace = nullptr;
  size_t workspace_bytes = 0;
  const void *alpha = nullptr, *beta = nullptr;
  // These are for the fused form only.
  const Activation* activation = nullptr;
  Tensor bias_type = {};
  const void* bias = nullptr;
};

// Says whether it is one of the documented convolutions, and whether the shapes fit.
cudnnStatus_t Check(Kind kind, const Tensor& x, const Tensor& w, const Tensor& y, const Convolution& conv);
size_t WorkspaceBytes(Kind kind, int algorithm);
// Puts into `work` what has to be done on the stream, or returns why it cannot be done.
cudnnStatus_t Bind(const Call& call, std::function<void()>* work);

// Lists what the heuristics recommend.
template <class Performance>
void List(Kind kind, int asked, int* count, Performance* to) {
  const std::array<int, 3> algorithms = kind == Kind::kForward ? std::array{5, 0, 1} : std::array{0, 2, 1};
  for (*count = 0; *count < asked && *count < 3; ++*count) {
    Performance& one = to[*count];
    const int algorithm = algorithms[static_cast<size_t>(*count)];
    one.algo = static_cast<decltype(one.algo)>(algorithm);
    one.status = CUDNN_STATUS_SUCCESS;
    one.memory = WorkspaceBytes(kind, algorithm);
    one.determinism = kind != Kind::kForward && algorithm == 0 ? CUDNN_NON_DETERMINISTIC : CUDNN_DETERMINISTIC;
  }
}

}  // namespace snug::core::cuda::fake_cudnn
