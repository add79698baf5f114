// Convolutions by cuDNN, through its functions for single convolutions (not its graphs).
//
// When a convolution is settled for a stream, the library's heuristics list algorithms. Of those that give the same
// bits each time (or of all, if `fast` is set) and keep within the workspace, the first that the library accepts is
// kept, together with what describes the convolution to the library.
//
// This header includes none of CUDA's.
#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <array>
#include <compare>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "engine/base/dtype.h"
#include "engine/cuda/cuda_stream.h"

struct cudnnContext;

namespace snug::core::cuda {

enum class CudnnConvKind : uint8_t { kForward, kGradInput, kGradWeight };

// A convolution over two spatial dimensions; if there is only one, the first has size 1. bfloat16 is added up in
// float32.
struct CudnnConv {
  CudnnConvKind kind = CudnnConvKind::kForward;
  DType dtype = DType::kFloat32;
  bool tf32 = false;  // round float32 factors to 10 bits of mantissa, for tensor cores
  bool fast = false;  // allow algorithms that add in another sequence each time
  // Data is [n, h, w, c] and weights are [filters, h, w, channels]; otherwise they lie in logical order.
  bool channels_last = false;
  std::array<int32_t, 4> x = {}, w = {}, y = {};  // logical: [n, c, h, w], [filters, channels in a group, h, w]
  std::array<int32_t, 2> pad = {}, stride = {}, dilation = {};
  int32_t groups = 1;
  bool bias = false, relu = false;  // forward only; relu only with a bias
  int64_t workspace_bytes = 0;      // the library may use so many
  // Which algorithm is tried first, counted from 1; beyond the end of the list the last. 1 prefers one that adds the
  // bias.
  int rank = 1;

  // NOLINTNEXTLINE(modernize-use-nullptr): clang-tidy 14 sees a 0 in it
  auto operator<=>(const CudnnConv&) const = default;
};

// Addresses on the device. Values begin at multiples of 256 bytes.
struct CudnnArguments {
  const void* data = nullptr;    // x; dy for the gradient of x
  const void* factor = nullptr;  // w; dy for the gradient of w
  const void* bias = nullptr;
  void* result = nullptr;  // y, dx or dw
  void* workspace = nullptr;
};

struct CudnnPlan;  // what the library knows of one convolution, and which algorithms may compute it

// The convolutions of one stream. It is thread-compatible, as the stream is.
class CudnnConvs {
 public:
  static absl::StatusOr<std::unique_ptr<CudnnConvs>> Create(CudaStream& stream);
  ~CudnnConvs();
  CudnnConvs(const CudnnConvs&) = delete;
  CudnnConvs& operator=(const CudnnConvs&) = delete;

  // Has the heuristics list algorithms for the convolution, once. Fails with Unimplemented, and with what the library
  // said, if it has no such convolution.
  absl::Status Settle(const CudnnConv& conv);
  // Asks for the convolution, and settles it if nobody has. Returns whether bias and relu are in the result, because
  // the library may have an algorithm for the convolution alone. If it fails with Unimplemented, as Settle does,
  // nothing was asked for.
  absl::StatusOr<bool> Run(const CudnnConv& conv, const CudnnArguments& arguments);

  // As StreamLibraries::TakeRefusedAlgorithm says.
  const std::string* TakeRefusedAlgorithm() { return std::exchange(refused_algorithm_, nullptr); }

 private:
  CudnnConvs(CudaStream& stream, cudnnContext* handle);

  CudaStream& stream_;
  cudnnContext* const handle_;
  std::map<CudnnConv, std::unique_ptr<CudnnPlan>> plans_;
  const std::string* refused_algorithm_ = nullptr;
};

}  // namespace snug::core::cuda
