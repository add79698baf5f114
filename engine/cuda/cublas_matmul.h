// Matrix products by cuBLASLt.
//
// When a product is settled for a stream, the library's heuristics list algorithms for its sizes, types and the most
// workspace that it may use. The first one that the library accepts is kept; the search begins with the one that was
// asked for. We only ask for algorithms that give the same bits each time: sums that are cut into parts are kept in the
// compute type and added in a pass of their own. What describes a product to the library lives on the stack, so there
// is nothing to give back but the handle.
//
// This header includes none of CUDA's.
#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <compare>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "engine/base/dtype.h"
#include "engine/cuda/cuda_stream.h"

struct cublasLtContext;

namespace snug::core::cuda {

// Computes c [m, n] = a [m, k] b [k, n] + bias [n] on row-major matrices, `count` times. bfloat16 is added up in
// float32.
struct CublasMatMul {
  DType dtype = DType::kFloat32;
  bool tf32 = false;  // round float32 factors to 10 bits of mantissa, for tensor cores
  int64_t m = 0, n = 0, k = 0;
  bool transpose_a = false, transpose_b = false;  // a is stored [k, m], b [n, k]
  // a_step and b_step count elements from one product's matrix to the next; 0: it is the same matrix.
  int64_t count = 1, a_step = 0, b_step = 0;
  // How many elements lie between the rows of a matrix as it is stored, and between the results of several products; 0:
  // there is nothing between them. `alignment` is what all matrices begin at multiples of, in bytes.
  int64_t a_row = 0, b_row = 0, c_row = 0, c_step = 0;
  int alignment = 256;
  bool accumulates = false;         // c is added to
  bool bias = false, relu = false;  // not in float64
  // The sums over k of a come, too: where a is transposed, of its rows. With dy as a they are the gradient of a bias.
  // Not in float64, and not several times.
  bool sums_a = false;
  // gelu (by tanh) of c comes beside c, to `gelu`. Not in float64, not several times, with no more than a bias of the
  // above, and n is a multiple of 8.
  bool gelu = false;
  int64_t workspace_bytes = 0;  // the library may use so many
  int rank = 1;  // which algorithm of the heuristics' list is tried first, counted from 1; beyond its end the last

  // NOLINTNEXTLINE(modernize-use-nullptr): clang-tidy 14 sees a 0 in it
  auto operator<=>(const CublasMatMul&) const = default;
};

// Addresses on the device. Values begin at multiples of 256 bytes.
struct CublasArguments {
  const void* a = nullptr;
  const void* b = nullptr;
  const void* bias = nullptr;
  void* c = nullptr;
  void* sums = nullptr;  // [m]
  void* gelu = nullptr;  // [m, n]
  void* workspace = nullptr;
};

// The products of one stream. It is thread-compatible, as the stream is.
class CublasMatMuls {
 public:
  static absl::StatusOr<std::unique_ptr<CublasMatMuls>> Create(CudaStream& stream);
  ~CublasMatMuls();
  CublasMatMuls(const CublasMatMuls&) = delete;
  CublasMatMuls& operator=(const CublasMatMuls&) = delete;

  // Has the heuristics list algorithms for the product, once. Fails with Unimplemented, and with what the library said,
  // if it has no such product.
  absl::Status Settle(const CublasMatMul& product);
  // Asks for the product, and settles it if nobody has. Returns whether the sums of a or gelu are
  // part of it, because the library may have the product alone. If it fails with Unimplemented, as Settle does, nothing
  // was asked for.
  absl::StatusOr<bool> Run(const CublasMatMul& product, const CublasArguments& arguments);
  // As StreamLibraries::TakeRefusedAlgorithm says.
  const std::string* TakeRefusedAlgorithm() { return std::exchange(refused_algorithm_, nullptr); }

 private:
  struct Algorithms;
  CublasMatMuls(CudaStream& stream, cublasLtContext* handle);

  CudaStream& stream_;
  cublasLtContext* const handle_;
  std::map<CublasMatMul, std::unique_ptr<Algorithms>> algorithms_;
  const std::string* refused_algorithm_ = nullptr;
};

}  // namespace snug::core::cuda
