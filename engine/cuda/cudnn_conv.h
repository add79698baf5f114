// Convolutions by cuDNN (cudnn_graph.h): y = convolution(x, w), or with a bias and relu in the same sweep, and the
// gradients of x and w.
//
// When a convolution is settled for a stream, the library's heuristics list engines. Of those that give the same bits
// each time (or of all, if `fast` is set) and keep within the workspace, the first that the library can prepare is
// kept.
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

// A convolution over two or three spatial dimensions; if there is only one, the first of two has size 1. bfloat16 is
// added up in float32.
struct CudnnConv {
  CudnnConvKind kind = CudnnConvKind::kForward;
  DType dtype = DType::kFloat32;
  bool tf32 = false;  // round float32 factors to 10 bits of mantissa, for tensor cores
  bool fast = false;  // allow engines that add in another sequence each time
  // Data is [n, spatial, c] and weights are [filters, spatial, channels]; otherwise they lie in logical order.
  bool channels_last = false;
  int32_t spatial = 2;
  // Logical: [n, c, spatial], [filters, channels in a group, spatial]; beyond them 0.
  std::array<int32_t, 5> x = {}, w = {}, y = {};
  std::array<int32_t, 3> pad_begin = {}, pad_end = {}, stride = {}, dilation = {};
  bool bias = false, relu = false;  // forward only; relu only with a bias
  int64_t workspace_bytes = 0;      // the library may use so many
  // Which of the engines that serve is taken, counted from 1; beyond the end of the list the last. Those that add the
  // bias come first.
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

std::string Describe(const CudnnConv& conv);  // for messages

struct CudnnTarget;
class CudnnPlans;

// Describes the convolution to the library, and has its heuristics list engines for it.
absl::StatusOr<std::unique_ptr<CudnnPlans>> PlansOf(const CudnnTarget& target, const CudnnConv& conv);

// The convolutions of one stream. It is thread-compatible, as the stream is.
class CudnnConvs {
 public:
  CudnnConvs(CudaStream& stream, cudnnContext* handle);
  ~CudnnConvs();
  CudnnConvs(const CudnnConvs&) = delete;
  CudnnConvs& operator=(const CudnnConvs&) = delete;

  // Has the library prepare an engine for the convolution, once. Fails with Unimplemented, and with what the library
  // said, if it has no such convolution.
  absl::Status Settle(const CudnnConv& conv);
  // Asks for the convolution, and settles it if nobody has. Returns whether bias and relu are in the result, because
  // the library may have an engine for the convolution alone. If it fails with Unimplemented, as Settle does, nothing
  // was asked for.
  absl::StatusOr<bool> Run(const CudnnConv& conv, const CudnnArguments& arguments);

  // As StreamLibraries::TakeRefusedAlgorithm says.
  const std::string* TakeRefusedAlgorithm() { return std::exchange(refused_algorithm_, nullptr); }

 private:
  CudaStream& stream_;
  cudnnContext* const handle_;
  std::map<CudnnConv, std::unique_ptr<CudnnPlans>> plans_;
  const std::string* refused_algorithm_ = nullptr;
};

}  // namespace snug::core::cuda
