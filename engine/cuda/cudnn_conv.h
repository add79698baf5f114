// Convolutions by cuDNN, through its functions for single convolutions (not its graphs).
//
// The library's heuristics list algorithms when a convolution is settled for a stream. Of those that give the same
// bits each time (or of all, where that is said) and keep to the workspace there is, the first that the library accepts
// is taken, and kept. What describes the convolution to the library is kept with it.
//
// Knows no CUDA header.
#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <array>
#include <compare>
#include <cstdint>
#include <map>
#include <memory>

#include "engine/base/dtype.h"
#include "engine/cuda/cuda_stream.h"

struct cudnnContext;

namespace snug::cuda {

enum class CudnnConvKind : uint8_t { kForward, kGradInput, kGradWeight };

// Over two spatial dimensions; of one, the first is 1. bfloat16 is added up in float32.
struct CudnnConv {
  CudnnConvKind kind = CudnnConvKind::kForward;
  DType dtype = DType::kFloat32;
  bool tf32 = false;           // float32: factors are rounded to 10 bits of mantissa, for tensor cores
  bool fast = false;           // also algorithms that add in another sequence each time
  bool channels_last = false;  // data as [n, h, w, c] and weights as [filters, h, w, channels]; else in logical order
  std::array<int32_t, 4> x = {}, w = {}, y = {};  // logical: [n, c, h, w], [filters, channels of a group, h, w]
  std::array<int32_t, 2> pad = {}, stride = {}, dilation = {};
  int32_t groups = 1;
  bool bias = false, relu = false;  // forward; relu only with a bias
  int64_t workspace_bytes = 0;      // at most
  int rank = 1;  // which algorithm is tried first, from 1 on, the last where there are fewer; 1: one that adds the bias

  // NOLINTNEXTLINE(modernize-use-nullptr): clang-tidy 14 sees a 0 in it
  auto operator<=>(const CudnnConv&) const = default;
};

// On the device; values begin at multiples of 256 bytes.
struct CudnnArguments {
  const void* data = nullptr;    // x; dy for the gradient of x
  const void* factor = nullptr;  // w; dy for the gradient of w
  const void* bias = nullptr;
  void* result = nullptr;  // y, dx or dw
  void* workspace = nullptr;
};

struct CudnnPlan;  // what the library knows of one convolution, and which algorithms may compute it

// Those of one stream. Thread-compatible, as the stream.
class CudnnConvs {
 public:
  static absl::StatusOr<std::unique_ptr<CudnnConvs>> Create(CudaStream& stream);
  ~CudnnConvs();
  CudnnConvs(const CudnnConvs&) = delete;
  CudnnConvs& operator=(const CudnnConvs&) = delete;

  // Has the heuristics list algorithms for it, once. Unimplemented, with what the library said: it has no such
  // convolution.
  absl::Status Settle(const CudnnConv& conv);
  // Asks for it; settles it where nobody has. Whether bias and relu are in the result: there may be an algorithm for
  // the convolution alone only. Unimplemented, with what the library said: it has no such convolution; nothing was
  // asked for.
  absl::StatusOr<bool> Run(const CudnnConv& conv, const CudnnArguments& arguments);

 private:
  CudnnConvs(CudaStream& stream, cudnnContext* handle);

  CudaStream& stream_;
  cudnnContext* const handle_;
  std::map<CudnnConv, std::unique_ptr<CudnnPlan>> plans_;
};

}  // namespace snug::cuda
