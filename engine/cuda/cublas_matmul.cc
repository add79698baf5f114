// The library sees matrices by columns: what is row-major to us is the transpose to it. So it computes
// c^T [n, m] = b^T [n, k] a^T [k, m]: our b is its first factor, and a bias [n] runs along the rows of its result.
#include "engine/cuda/cublas_matmul.h"

#include <absl/strings/str_cat.h>

#include <algorithm>
#include <array>
#include <utility>

#include "engine/base/status.h"
#include "engine/cuda/cuda_table.h"

namespace snug::cuda {

#if SNUG_HAS_CUBLASLT

struct CublasMatMuls::Algorithm {
  cublasLtMatmulAlgo_t algorithm;
  size_t workspace_bytes;
};

namespace {

cudaDataType_t DataType(DType dtype) {
  switch (dtype) {
    case DType::kBFloat16:
      return CUDA_R_16BF;
    case DType::kFloat64:
      return CUDA_R_64F;
    default:
      return CUDA_R_32F;
  }
}

cublasComputeType_t ComputeType(const CublasMatMul& product) {
  if (product.dtype == DType::kFloat64) return CUBLAS_COMPUTE_64F;
  return product.tf32 && product.dtype == DType::kFloat32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
}

cublasLtEpilogue_t EpilogueOf(const CublasMatMul& product) {
  if (product.relu) return product.bias ? CUBLASLT_EPILOGUE_RELU_BIAS : CUBLASLT_EPILOGUE_RELU;
  return product.bias ? CUBLASLT_EPILOGUE_BIAS : CUBLASLT_EPILOGUE_DEFAULT;
}

std::string Describe(const CublasMatMul& product) {
  return absl::StrCat("a product of ", product.count > 1 ? absl::StrCat(product.count, " times ") : "", "[", product.m,
                      ", ", product.k, "] and [", product.k, ", ", product.n, "] in ", Name(product.dtype),
                      product.tf32 ? " with TF32" : "");
}

absl::Status NoAlgorithm(const CublasMatMul& product) {
  return absl::UnimplementedError(absl::StrCat("cuBLASLt has no algorithm for ", Describe(product)));
}

// What the library is told of a product. All of it lives here.
struct Description {
  cublasLtMatmulDescOpaque_t operation;
  cublasLtMatrixLayoutOpaque_t first, second, result;
};

// Of a row-major matrix [rows, columns] as it is stored.
absl::Status DescribeMatrix(const Api& api, const CublasMatMul& product, int64_t rows, int64_t columns, int64_t step,
                            cublasLtMatrixLayoutOpaque_t* layout) {
  SNUG_CUDA_CALL(api, cublasLtMatrixLayoutInit_internal,
                 (layout, sizeof(*layout), DataType(product.dtype), static_cast<uint64_t>(columns),
                  static_cast<uint64_t>(rows), columns),
                 absl::StrCat("describing ", Describe(product)));
  if (product.count == 1) return absl::OkStatus();
  const auto count = static_cast<int32_t>(product.count);
  SNUG_CUDA_CALL(api, cublasLtMatrixLayoutSetAttribute,
                 (layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count, sizeof(count)),
                 absl::StrCat("describing ", Describe(product)));
  SNUG_CUDA_CALL(api, cublasLtMatrixLayoutSetAttribute,
                 (layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &step, sizeof(step)),
                 absl::StrCat("describing ", Describe(product)));
  return absl::OkStatus();
}

absl::Status DescribeOperation(const Api& api, const CublasMatMul& product, const void* bias,
                               cublasLtMatmulDescOpaque_t* operation) {
  SNUG_CUDA_CALL(
      api, cublasLtMatmulDescInit_internal,
      (operation, sizeof(*operation), ComputeType(product), product.dtype == DType::kFloat64 ? CUDA_R_64F : CUDA_R_32F),
      absl::StrCat("describing ", Describe(product)));
  const auto set = [&](cublasLtMatmulDescAttributes_t attribute, const auto& value) -> absl::Status {
    SNUG_CUDA_CALL(api, cublasLtMatmulDescSetAttribute, (operation, attribute, &value, sizeof(value)),
                   absl::StrCat("describing ", Describe(product)));
    return absl::OkStatus();
  };
  const int32_t first = product.transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N;
  const int32_t second = product.transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N;
  const auto epilogue = static_cast<uint32_t>(EpilogueOf(product));
  SNUG_RETURN_IF_ERROR(set(CUBLASLT_MATMUL_DESC_TRANSA, first));
  SNUG_RETURN_IF_ERROR(set(CUBLASLT_MATMUL_DESC_TRANSB, second));
  SNUG_RETURN_IF_ERROR(set(CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue));
  return product.bias ? set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias) : absl::OkStatus();
}

absl::Status DescribeAll(const Api& api, const CublasMatMul& product, const void* bias, Description* to) {
  SNUG_RETURN_IF_ERROR(DescribeOperation(api, product, bias, &to->operation));
  const auto [m, n, k] = std::array{product.m, product.n, product.k};
  const bool a_turned = product.transpose_a;
  const bool b_turned = product.transpose_b;
  SNUG_RETURN_IF_ERROR(DescribeMatrix(api, product, b_turned ? n : k, b_turned ? k : n, product.b_step, &to->first));
  SNUG_RETURN_IF_ERROR(DescribeMatrix(api, product, a_turned ? k : m, a_turned ? m : k, product.a_step, &to->second));
  return DescribeMatrix(api, product, m, n, m * n, &to->result);
}

constexpr int kAlgorithmsAsked = 16;

// The heuristics' choice of that rank.
absl::StatusOr<cublasLtMatmulHeuristicResult_t> ChooseAlgorithm(const Api& api, cublasLtHandle_t handle,
                                                                const CublasMatMul& product, Description* description) {
  cublasLtMatmulPreferenceOpaque_t preference;
  SNUG_CUDA_CALL(api, cublasLtMatmulPreferenceInit_internal, (&preference, sizeof(preference)),
                 absl::StrCat("choosing an algorithm for ", Describe(product)));
  const auto set = [&](cublasLtMatmulPreferenceAttributes_t attribute, const auto& value) -> absl::Status {
    SNUG_CUDA_CALL(api, cublasLtMatmulPreferenceSetAttribute, (&preference, attribute, &value, sizeof(value)),
                   absl::StrCat("choosing an algorithm for ", Describe(product)));
    return absl::OkStatus();
  };
  const auto workspace = static_cast<uint64_t>(product.workspace_bytes);
  const auto reductions = static_cast<uint32_t>(CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE);
  SNUG_RETURN_IF_ERROR(set(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, workspace));
  SNUG_RETURN_IF_ERROR(set(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, reductions));
  std::array<cublasLtMatmulHeuristicResult_t, kAlgorithmsAsked> found = {};
  const int asked = std::min(product.rank, kAlgorithmsAsked);
  int count = 0;
  SNUG_CUDA_CALL(api, cublasLtMatmulAlgoGetHeuristic,
                 (handle, &description->operation, &description->first, &description->second, &description->result,
                  &description->result, &preference, asked, found.data(), &count),
                 absl::StrCat("choosing an algorithm for ", Describe(product)));
  for (int i = std::min(count, asked); i-- > 0;) {
    const cublasLtMatmulHeuristicResult_t& one = found[static_cast<size_t>(i)];
    if (one.state == CUBLAS_STATUS_SUCCESS) return one;
  }
  return NoAlgorithm(product);
}

// Whether the library has nothing for a product; or is a newer one, whose descriptions are larger than this build's.
bool HasNone(const absl::Status& status) { return absl::IsUnimplemented(status) || absl::IsResourceExhausted(status); }

}  // namespace

CublasMatMuls::CublasMatMuls(CudaStream& stream, cublasLtContext* handle) : stream_(stream), handle_(handle) {}

absl::StatusOr<std::unique_ptr<CublasMatMuls>> CublasMatMuls::Create(CudaStream& stream) {
  SNUG_RETURN_IF_ERROR(stream.device().MakeCurrent());
  cublasLtHandle_t handle = nullptr;
  SNUG_CUDA_CALL(stream.device().api(), cublasLtCreate, (&handle), "starting cuBLASLt");
  return std::unique_ptr<CublasMatMuls>(new CublasMatMuls(stream, handle));
}

CublasMatMuls::~CublasMatMuls() {
  stream_.device().MakeCurrent().IgnoreError();  // giving back is tried whatever happened
  stream_.device().api().table().cublasLtDestroy(handle_);
}

absl::Status CublasMatMuls::Run(const CublasMatMul& product, const CublasArguments& arguments) {
  const Api& api = stream_.device().api();
  const auto known = algorithms_.find(product);
  if (known != algorithms_.end() && known->second == nullptr) return NoAlgorithm(product);
  SNUG_RETURN_IF_ERROR(stream_.device().MakeCurrent());
  Description description;
  const absl::Status described = DescribeAll(api, product, arguments.bias, &description);
  if (HasNone(described)) {
    algorithms_[product] = nullptr;
    return NoAlgorithm(product);
  }
  SNUG_RETURN_IF_ERROR(described);
  std::shared_ptr<const Algorithm> algorithm;
  if (known != algorithms_.end()) {
    algorithm = known->second;
  } else {
    const absl::StatusOr<cublasLtMatmulHeuristicResult_t> found = ChooseAlgorithm(api, handle_, product, &description);
    if (HasNone(found.status())) {
      algorithms_[product] = nullptr;
      return NoAlgorithm(product);
    }
    SNUG_RETURN_IF_ERROR(found.status());
    algorithm = std::make_shared<const Algorithm>(Algorithm{found->algo, found->workspaceSize});
    algorithms_[product] = algorithm;
  }
  const double one = 1, zero = 0;
  const float one_float = 1, zero_float = 0;
  const bool in_double = product.dtype == DType::kFloat64;
  const void* const alpha = in_double ? static_cast<const void*>(&one) : &one_float;
  const void* const beta = in_double ? static_cast<const void*>(&zero) : &zero_float;
  SNUG_CUDA_CALL(api, cublasLtMatmul,
                 (handle_, &description.operation, alpha, arguments.b, &description.first, arguments.a,
                  &description.second, beta, arguments.c, &description.result, arguments.c, &description.result,
                  &algorithm->algorithm, arguments.workspace, algorithm->workspace_bytes, stream_.handle()),
                 absl::StrCat("asking for ", Describe(product)));
  return absl::OkStatus();
}

#else

// Never reached: a library that this build does not know is not there.
struct CublasMatMuls::Algorithm {};
CublasMatMuls::CublasMatMuls(CudaStream& stream, cublasLtContext* handle) : stream_(stream), handle_(handle) {}
CublasMatMuls::~CublasMatMuls() = default;
absl::StatusOr<std::unique_ptr<CublasMatMuls>> CublasMatMuls::Create(CudaStream&) {
  return absl::FailedPreconditionError("this build has no cuBLASLt");
}
absl::Status CublasMatMuls::Run(const CublasMatMul&, const CublasArguments&) {
  return absl::UnimplementedError("this build has no cuBLASLt");
}

#endif

}  // namespace snug::cuda
