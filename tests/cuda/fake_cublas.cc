#include "tests/cuda/fake_cublas.h"

#include <algorithm>
#include <cstring>

#include "ops/math/functions.h"
#include "tests/cuda/fake_numbers.h"

namespace snug::core::cuda::fake_cublas {
namespace {

// Fills the structure with garbage first, so that nobody can rely on what was not set.
template <class Inside, class Opaque>
void Store(Opaque* to, const Inside& value) {
  static_assert(sizeof(Inside) <= sizeof(Opaque));
  std::memset(to, 0xcd, sizeof(*to));
  std::memcpy(to, &value, sizeof(value));
}

template <class T>
cublasStatus_t Assign(T* to, const void* value, size_t bytes) {
  if (bytes != sizeof(T)) return CUBLAS_STATUS_INVALID_VALUE;
  std::memcpy(to, value, bytes);
  return CUBLAS_STATUS_SUCCESS;
}

DType TypeOf(cudaDataType_t type) {
  return type == CUDA_R_64F ? DType::kFloat64 : type == CUDA_R_32F ? DType::kFloat32 : DType::kBFloat16;
}

bool HasBias(uint32_t epilogue) { return (epilogue & CUBLASLT_EPILOGUE_BIAS) != 0; }
bool SumsB(uint32_t epilogue) { return epilogue == CUBLASLT_EPILOGUE_BGRADB; }
bool HasGelu(uint32_t epilogue) {
  return epilogue == CUBLASLT_EPILOGUE_GELU_AUX || epilogue == CUBLASLT_EPILOGUE_GELU_AUX_BIAS;
}
bool HasRelu(uint32_t epilogue) { return (epilogue & CUBLASLT_EPILOGUE_RELU) != 0; }

struct Algorithm {
  uint64_t sign, workspace_bytes, number;
  uint32_t alignments[4];
};
constexpr uint64_t kSign = 0x5eed;

// Says whether matrices begin where an algorithm was told they would. The memory of tests is aligned to 16 bytes.
bool Aligned(const Algorithm& algorithm, const void* a, const void* b, const void* d) {
  const auto at = [](const void* address, uint32_t alignment) {
    return reinterpret_cast<uintptr_t>(address) % std::min<uint32_t>(alignment, 16) == 0;
  };
  return at(a, algorithm.alignments[0]) && at(b, algorithm.alignments[1]) && at(d, algorithm.alignments[2]) &&
         at(d, algorithm.alignments[3]);
}

// Says whether the matrices fit each other and lie in memory as they should.
bool Fits(const Operation& o, const Matrix& a, const Matrix& b, const Matrix& d) {
  const bool turned_a = o.transpose_a != CUBLAS_OP_N;
  const bool turned_b = o.transpose_b != CUBLAS_OP_N;
  const uint64_t m = turned_a ? a.columns : a.rows;
  const uint64_t inner = turned_a ? a.rows : a.columns;
  const uint64_t inner_b = turned_b ? b.columns : b.rows;
  const uint64_t n = turned_b ? b.rows : b.columns;
  bool fits = inner == inner_b && m == d.rows && n == d.columns && a.count == d.count && b.count == d.count;
  for (const Matrix* one : {&a, &b, &d}) {
    fits &= one->leading >= static_cast<int64_t>(one->rows) && one->rows > 0 && one->columns > 0 && one->count > 0;
    fits &= one->type == d.type;
  }
  return fits;
}

bool Documented(const Operation& o, const Matrix& d) {
  if (d.type == CUDA_R_64F) {
    return o.compute == CUBLAS_COMPUTE_64F && o.scale == CUDA_R_64F && o.epilogue == CUBLASLT_EPILOGUE_DEFAULT;
  }
  if ((SumsB(o.epilogue) || HasGelu(o.epilogue)) && d.count != 1) return false;
  if (HasGelu(o.epilogue) && (o.beside_leading % 8 != 0 || o.beside_leading < static_cast<int64_t>(d.rows))) {
    return false;
  }
  const bool fast = o.compute == CUBLAS_COMPUTE_32F_FAST_TF32 && d.type == CUDA_R_32F;
  return o.scale == CUDA_R_32F && (o.compute == CUBLAS_COMPUTE_32F || fast);
}

void Compute(const Call& call, double alpha, double beta) {
  const Operation& o = call.operation;
  const bool rounds = o.compute == CUBLAS_COMPUTE_32F_FAST_TF32;
  const auto factor = [&](const Matrix& matrix, const void* data, int64_t of, uint64_t row, uint64_t column) {
    const int64_t i = of * matrix.step + static_cast<int64_t>(column) * matrix.leading + static_cast<int64_t>(row);
    const double value = NumberAt(data, TypeOf(matrix.type), i);
    return rounds ? RoundedToTf32(value) : value;
  };
  const uint64_t inner = o.transpose_a != CUBLAS_OP_N ? call.a.rows : call.a.columns;
  for (int64_t of = 0; of < call.d.count; ++of) {
    for (uint64_t row = 0; row < call.d.rows; ++row) {
      for (uint64_t column = 0; column < call.d.columns; ++column) {
        double sum = 0;
        for (uint64_t i = 0; i < inner; ++i) {
          const double a = o.transpose_a != CUBLAS_OP_N ? factor(call.a, call.a_data, of, i, row)
                                                        : factor(call.a, call.a_data, of, row, i);
          const double b = o.transpose_b != CUBLAS_OP_N ? factor(call.b, call.b_data, of, column, i)
                                                        : factor(call.b, call.b_data, of, i, column);
          sum += a * b;
        }
        sum *= alpha;
        const int64_t to = of * call.d.step + static_cast<int64_t>(column) * call.d.leading + static_cast<int64_t>(row);
        if (beta != 0) sum += beta * NumberAt(call.d_data, TypeOf(call.d.type), to);  // of 0 it reads nothing
        if (HasBias(o.epilogue)) sum += NumberAt(o.bias, TypeOf(call.d.type), static_cast<int64_t>(row));
        if (HasRelu(o.epilogue) && sum < 0) sum = 0;
        const int64_t i = static_cast<int64_t>(column) * o.beside_leading + static_cast<int64_t>(row);
        if (HasGelu(o.epilogue)) {
          PutNumber(const_cast<void*>(o.beside), TypeOf(call.d.type), i, sum);
          sum = functions::GeluByTanh()(sum);
        }
        PutNumber(call.d_data, TypeOf(call.d.type), to, sum);
      }
    }
  }
  for (uint64_t column = 0; SumsB(o.epilogue) && column < call.d.columns; ++column) {
    double sum = 0;
    for (uint64_t i = 0; i < inner; ++i) {
      sum += o.transpose_b != CUBLAS_OP_N ? factor(call.b, call.b_data, 0, column, i)
                                          : factor(call.b, call.b_data, 0, i, column);
    }
    PutNumber(const_cast<void*>(o.bias), TypeOf(call.d.type), static_cast<int64_t>(column), sum);
  }
}

}  // namespace

cublasStatus_t Describe(cublasLtMatmulDesc_t to, size_t bytes, cublasComputeType_t compute, cudaDataType_t scale) {
  if (bytes != sizeof(*to)) return CUBLAS_STATUS_ALLOC_FAILED;
  Store(to, Operation{compute, scale, CUBLAS_OP_N, CUBLAS_OP_N, CUBLASLT_EPILOGUE_DEFAULT, nullptr, nullptr, 0});
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t Set(cublasLtMatmulDesc_t to, cublasLtMatmulDescAttributes_t attribute, const void* value, size_t bytes) {
  auto& operation = const_cast<Operation&>(Look<Operation>(to));
  switch (attribute) {
    case CUBLASLT_MATMUL_DESC_TRANSA:
      return Assign(&operation.transpose_a, value, bytes);
    case CUBLASLT_MATMUL_DESC_TRANSB:
      return Assign(&operation.transpose_b, value, bytes);
    case CUBLASLT_MATMUL_DESC_EPILOGUE:
      return Assign(&operation.epilogue, value, bytes);
    case CUBLASLT_MATMUL_DESC_BIAS_POINTER:
      return Assign(&operation.bias, value, bytes);
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER:
      return Assign(&operation.beside, value, bytes);
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD:
      return Assign(&operation.beside_leading, value, bytes);
    default:
      return CUBLAS_STATUS_INVALID_VALUE;
  }
}

cublasStatus_t Describe(cublasLtMatrixLayout_t to, size_t bytes, cudaDataType_t type, uint64_t rows, uint64_t columns,
                        int64_t leading) {
  if (bytes != sizeof(*to)) return CUBLAS_STATUS_ALLOC_FAILED;
  Store(to, Matrix{type, rows, columns, leading, 1, 0});
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t Set(cublasLtMatrixLayout_t to, cublasLtMatrixLayoutAttribute_t attribute, const void* value,
                   size_t bytes) {
  auto& matrix = const_cast<Matrix&>(Look<Matrix>(to));
  switch (attribute) {
    case CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT:
      return Assign(&matrix.count, value, bytes);
    case CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET:
      return Assign(&matrix.step, value, bytes);
    default:
      return CUBLAS_STATUS_INVALID_VALUE;
  }
}

cublasStatus_t Describe(cublasLtMatmulPreference_t to, size_t bytes) {
  if (bytes != sizeof(*to)) return CUBLAS_STATUS_ALLOC_FAILED;
  Store(to, Preference{0, CUBLASLT_REDUCTION_SCHEME_MASK, {256, 256, 256, 256}});
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t Set(cublasLtMatmulPreference_t to, cublasLtMatmulPreferenceAttributes_t attribute, const void* value,
                   size_t bytes) {
  auto& preference = const_cast<Preference&>(Look<Preference>(to));
  switch (attribute) {
    case CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES:
      return Assign(&preference.workspace_bytes, value, bytes);
    case CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK:
      return Assign(&preference.reductions, value, bytes);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES:
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES:
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES:
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES:
      return Assign(&preference.alignments[attribute - CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES], value, bytes);
    default:
      return CUBLAS_STATUS_INVALID_VALUE;
  }
}

cublasStatus_t Choose(const Operation& operation, const Matrix& a, const Matrix& b, const Matrix& d,
                      const Preference& preference, int asked, cublasLtMatmulHeuristicResult_t* found, int* count) {
  if (!Fits(operation, a, b, d)) return CUBLAS_STATUS_INVALID_VALUE;
  if (!Documented(operation, d)) return CUBLAS_STATUS_NOT_SUPPORTED;
  // Algorithms that add up in place, or in bfloat16, must not be asked for.
  if (preference.reductions != CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE) return CUBLAS_STATUS_NOT_SUPPORTED;
  for (*count = 0; *count < asked && *count < 3; ++*count) {
    cublasLtMatmulHeuristicResult_t& one = found[*count];
    std::memset(&one, 0, sizeof(one));
    Algorithm algorithm{kSign, preference.workspace_bytes, static_cast<uint64_t>(*count), {}};
    std::memcpy(algorithm.alignments, preference.alignments, sizeof(algorithm.alignments));
    std::memcpy(&one.algo, &algorithm, sizeof(algorithm));
    one.workspaceSize = preference.workspace_bytes;
    one.state = CUBLAS_STATUS_SUCCESS;
  }
  return CUBLAS_STATUS_SUCCESS;
}

int NumberOf(const cublasLtMatmulAlgo_t& algorithm) { return static_cast<int>(Look<Algorithm>(&algorithm).number); }

cublasStatus_t Bind(const Call& call, std::function<void()>* work) {
  const Operation& o = call.operation;
  if (!Fits(o, call.a, call.b, call.d)) return CUBLAS_STATUS_INVALID_VALUE;
  if (!Documented(o, call.d)) return CUBLAS_STATUS_NOT_SUPPORTED;
  Algorithm algorithm;
  std::memcpy(&algorithm, call.algorithm, sizeof(algorithm));
  const bool enough = call.workspace_bytes >= algorithm.workspace_bytes &&
                      (call.workspace != nullptr || algorithm.workspace_bytes == 0);
  if (algorithm.sign != kSign || !enough || !Aligned(algorithm, call.a_data, call.b_data, call.d_data))
    return CUBLAS_STATUS_INVALID_VALUE;
  if (HasGelu(o.epilogue) && o.beside == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
  if ((HasBias(o.epilogue) || SumsB(o.epilogue)) && o.bias == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
  const double alpha = NumberAt(call.alpha, TypeOf(o.scale), 0);
  const double beta = NumberAt(call.beta, TypeOf(o.scale), 0);
  *work = [call, alpha, beta] {
    // The workspace may hold anything while the product runs.
    if (call.workspace_bytes > 0) std::memset(call.workspace, 0xab, call.workspace_bytes);
    Compute(call, alpha, beta);
  };
  return CUBLAS_STATUS_SUCCESS;
}

}  // namespace snug::core::cuda::fake_cublas
