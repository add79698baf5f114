// Matrix products by cuBLASLt.
//
// The library's heuristics list algorithms when a product is settled for a stream, by its sizes, types and the most
// workspace that it may use. The first that the library accepts is taken, from the one that was asked for on, and kept.
// Only algorithms are asked for that give the same bits each time: sums that are cut into parts are kept in the compute
// type and added in a pass of their own. What describes a product to the library lives on the stack, so there is
// nothing to give back but the handle.
//
// Knows no CUDA header.
#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <compare>
#include <cstdint>
#include <map>
#include <memory>

#include "engine/base/dtype.h"
#include "engine/cuda/cuda_stream.h"

struct cublasLtContext;

namespace snug::cuda {

// c [m, n] = a [m, k] b [k, n] + bias [n], of row-major matrices, `count` times. bfloat16 is added up in float32.
struct CublasMatMul {
  DType dtype = DType::kFloat32;
  bool tf32 = false;  // float32: factors are rounded to 10 bits of mantissa, for tensor cores
  int64_t m = 0, n = 0, k = 0;
  bool transpose_a = false, transpose_b = false;  // a is stored [k, m], b [n, k]
  int64_t count = 1, a_step = 0, b_step = 0;      // elements from one product's matrix to the next; 0: the same one
  bool bias = false, relu = false;                // not of float64
  int64_t workspace_bytes = 0;                    // at most
  int rank = 1;  // which of the heuristics' list is tried first, from 1 on; the last where it is shorter

  // NOLINTNEXTLINE(modernize-use-nullptr): clang-tidy 14 sees a 0 in it
  auto operator<=>(const CublasMatMul&) const = default;
};

// On the device; values begin at multiples of 256 bytes.
struct CublasArguments {
  const void* a = nullptr;
  const void* b = nullptr;
  const void* bias = nullptr;
  void* c = nullptr;
  void* workspace = nullptr;
};

// Those of one stream. Thread-compatible, as the stream.
class CublasMatMuls {
 public:
  static absl::StatusOr<std::unique_ptr<CublasMatMuls>> Create(CudaStream& stream);
  ~CublasMatMuls();
  CublasMatMuls(const CublasMatMuls&) = delete;
  CublasMatMuls& operator=(const CublasMatMuls&) = delete;

  // Has the heuristics list algorithms for it, once. Unimplemented, with what the library said: it has no such product.
  absl::Status Settle(const CublasMatMul& product);
  // Asks for it; settles it where nobody has. Unimplemented, with what the library said: it has no such product;
  // nothing was asked for.
  absl::Status Run(const CublasMatMul& product, const CublasArguments& arguments);

 private:
  struct Algorithms;
  CublasMatMuls(CudaStream& stream, cublasLtContext* handle);

  CudaStream& stream_;
  cublasLtContext* const handle_;
  std::map<CublasMatMul, std::unique_ptr<Algorithms>> algorithms_;
};

}  // namespace snug::cuda
