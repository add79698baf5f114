// The library sees matrices by columns, so what is row-major to us is the transpose to it. It therefore computes c^T
// [n, m] = b^T [n, k] a^T [k, m]: our b is its first factor, and a bias [n] runs along the rows of its result.
#include "engine/cuda/cublas_matmul.h"

#include <absl/strings/str_cat.h>

#include <algorithm>
#include <array>
#include <string>
#include <utility>
#include <vector>

#include "engine/base/status.h"
#include "engine/cuda/cuda_libraries.h"
#include "engine/cuda/cuda_table.h"

namespace snug::core::cuda {

#if SNUG_HAS_CUBLASLT

namespace {
struct Candidate {
  cublasLtMatmulHeuristicResult_t algorithm;
  bool whole;  // it is for the product with all that is wanted beside it, and not for it alone
};
}  // namespace

struct CublasMatMuls::Algorithms {
  std::vector<Candidate> candidates;
  size_t taken = 0;     // the library refused those before it
  std::string refusal;  // what the library said last when it refused one of them, or the product

  bool refused() const { return taken == candidates.size(); }
};

namespace {

cudaDataType_t CublasType(DType dtype) {
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
  if (product.sums_a) return CUBLASLT_EPILOGUE_BGRADB;  // our a is the library's second factor
  if (product.gelu) return product.bias ? CUBLASLT_EPILOGUE_GELU_AUX_BIAS : CUBLASLT_EPILOGUE_GELU_AUX;
  if (product.relu) return product.bias ? CUBLASLT_EPILOGUE_RELU_BIAS : CUBLASLT_EPILOGUE_RELU;
  return product.bias ? CUBLASLT_EPILOGUE_BIAS : CUBLASLT_EPILOGUE_DEFAULT;
}

std::string Describe(const CublasMatMul& product) {
  return absl::StrCat("a product of ", product.count > 1 ? absl::StrCat(product.count, " times ") : "", "[", product.m,
                      ", ", product.k, "] and [", product.k, ", ", product.n, "] in ", Name(product.dtype),
                      product.tf32 ? " with TF32" : "");
}

// Everything that tells the library about a product. All of it lives in here.
struct Description {
  cublasLtMatmulDescOpaque_t operation;
  cublasLtMatrixLayoutOpaque_t first, second, result;
};

// A row-major matrix as it is stored, and how many elements lie from one of several to the next.
struct Stored {
  int64_t rows, columns, row, step;
};

absl::Status DescribeMatrix(const Api& api, const CublasMatMul& product, const Stored& stored,
                            cublasLtMatrixLayoutOpaque_t* layout) {
  SNUG_CUDA_CALL(api, cublasLtMatrixLayoutInit_internal,
                 (layout, sizeof(*layout), CublasType(product.dtype), static_cast<uint64_t>(stored.columns),
                  static_cast<uint64_t>(stored.rows), stored.row > 0 ? stored.row : stored.columns),
                 absl::StrCat("describing ", Describe(product)));
  if (product.count == 1) return absl::OkStatus();
  const auto count = static_cast<int32_t>(product.count);
  SNUG_CUDA_CALL(api, cublasLtMatrixLayoutSetAttribute,
                 (layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count, sizeof(count)),
                 absl::StrCat("describing ", Describe(product)));
  SNUG_CUDA_CALL(api, cublasLtMatrixLayoutSetAttribute,
                 (layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &stored.step, sizeof(stored.step)),
                 absl::StrCat("describing ", Describe(product)));
  return absl::OkStatus();
}

// What else than matrices an epilogue reads or writes: the bias or the sums, and where the values before gelu go.
struct Beside {
  const void* vector = nullptr;
  const void* before_gelu = nullptr;
};

// Says whether a product has what the library may not have with it.
bool HasMore(const CublasMatMul& product) { return product.sums_a || product.gelu; }

absl::Status DescribeOperation(const Api& api, const CublasMatMul& product, const Beside& beside,
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
  if (product.bias || product.sums_a) SNUG_RETURN_IF_ERROR(set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, beside.vector));
  if (!product.gelu) return absl::OkStatus();
  SNUG_RETURN_IF_ERROR(set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, beside.before_gelu));
  return set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, product.n);
}

absl::Status DescribeAll(const Api& api, const CublasMatMul& product, const Beside& beside, Description* to) {
  SNUG_RETURN_IF_ERROR(DescribeOperation(api, product, beside, &to->operation));
  const auto [m, n, k] = std::array{product.m, product.n, product.k};
  const bool a_turned = product.transpose_a;
  const bool b_turned = product.transpose_b;
  const Stored a = {a_turned ? k : m, a_turned ? m : k, product.a_row, product.a_step};
  const Stored b = {b_turned ? n : k, b_turned ? k : n, product.b_row, product.b_step};
  const Stored c = {m, n, product.c_row, product.c_step > 0 ? product.c_step : m * n};
  SNUG_RETURN_IF_ERROR(DescribeMatrix(api, product, b, &to->first));
  SNUG_RETURN_IF_ERROR(DescribeMatrix(api, product, a, &to->second));
  return DescribeMatrix(api, product, c, &to->result);
}

constexpr int kFewestAsked = 8, kMostAsked = 16;  // how many algorithms the heuristics are asked for

// Lists the heuristics' algorithms, from that of the wanted rank on, with those before it at the end.
absl::Status ListAlgorithms(const Api& api, cublasLtHandle_t handle, const CublasMatMul& product,
                            std::vector<Candidate>* to) {
  // The heuristics want to know how the bias will be aligned. They get an address for it, and read nothing there.
  constexpr int kAligned = 256;  // what it takes for granted of the matrices
  Description description;
  const void* const any = reinterpret_cast<const void*>(uintptr_t{kAligned});  // NOLINT(performance-no-int-to-ptr)
  SNUG_RETURN_IF_ERROR(DescribeAll(api, product, {any, any}, &description));
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
  if (product.alignment < kAligned) {
    const auto alignment = static_cast<uint32_t>(product.alignment);
    for (const auto matrix : {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
                              CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES}) {
      SNUG_RETURN_IF_ERROR(set(matrix, alignment));
    }
  }
  std::vector<cublasLtMatmulHeuristicResult_t> listed(
      static_cast<size_t>(std::clamp(product.rank, kFewestAsked, kMostAsked)));
  int count = 0;
  SNUG_CUDA_CALL(api, cublasLtMatmulAlgoGetHeuristic,
                 (handle, &description.operation, &description.first, &description.second, &description.result,
                  &description.result, &preference, static_cast<int>(listed.size()), listed.data(), &count),
                 absl::StrCat("choosing an algorithm for ", Describe(product)));
  listed.resize(std::min(static_cast<size_t>(std::max(count, 0)), listed.size()));
  listed.erase(
      std::remove_if(listed.begin(), listed.end(), [](const auto& one) { return one.state != CUBLAS_STATUS_SUCCESS; }),
      listed.end());
  const auto last = static_cast<std::ptrdiff_t>(listed.size()) - 1;
  if (last > 0) {
    std::rotate(listed.begin(), listed.begin() + std::min<std::ptrdiff_t>(product.rank - 1, last), listed.end());
  }
  for (const cublasLtMatmulHeuristicResult_t& one : listed) to->push_back({one, HasMore(product)});
  return absl::OkStatus();
}

// The product without what the library may not have with it.
CublasMatMul Alone(CublasMatMul product) {
  product.sums_a = product.gelu = false;
  return product;
}

// Says whether the library has nothing for a product. A newer one also says so if its description is larger than this
// build has room for.
bool HasNone(const absl::Status& status) { return Refuses(status) || absl::IsResourceExhausted(status); }

absl::Status Ask(const CudaStream& stream, cublasLtHandle_t handle, const CublasMatMul& product,
                 const CublasArguments& at, Description* description, const cublasLtMatmulHeuristicResult_t& by) {
  const double one = 1;
  const float one_float = 1;
  const bool in_double = product.dtype == DType::kFloat64;
  const void* const alpha = in_double ? static_cast<const void*>(&one) : &one_float;
  const double beta_double = product.accumulates ? 1 : 0;
  const auto beta_float = static_cast<float>(beta_double);
  const void* const beta = in_double ? static_cast<const void*>(&beta_double) : &beta_float;
  void* const result = product.gelu ? at.gelu : at.c;
  SNUG_CUDA_CALL(
      stream.device().api(), cublasLtMatmul,
      (handle, &description->operation, alpha, at.b, &description->first, at.a, &description->second, beta, result,
       &description->result, result, &description->result, &by.algo, at.workspace, by.workspaceSize, stream.handle()),
      absl::StrCat("asking for ", Describe(product)));
  return absl::OkStatus();
}

}  // namespace

CublasMatMuls::CublasMatMuls(CudaStream& stream, cublasLtContext* handle) : stream_(stream), handle_(handle) {}

absl::StatusOr<std::unique_ptr<CublasMatMuls>> CublasMatMuls::Create(CudaStream& stream) {
  SNUG_RETURN_IF_ERROR(stream.device().MakeCurrent());
  cublasLtHandle_t handle = nullptr;
  SNUG_CUDA_CALL(stream.device().api(), cublasLtCreate, (&handle), "starting cuBLASLt");
  return std::unique_ptr<CublasMatMuls>(new CublasMatMuls(stream, handle));
}

CublasMatMuls::~CublasMatMuls() {
  stream_.device().MakeCurrent().IgnoreError();  // the handle is given back whatever happened
  stream_.device().api().table().cublasLtDestroy(handle_);
}

absl::Status CublasMatMuls::Settle(const CublasMatMul& product) {
  const Api& api = stream_.device().api();
  std::unique_ptr<Algorithms>& known = algorithms_[product];
  if (known != nullptr) return known->refused() ? absl::UnimplementedError(known->refusal) : absl::OkStatus();
  SNUG_RETURN_IF_ERROR(stream_.device().MakeCurrent());
  auto listed = std::make_unique<Algorithms>();
  listed->refusal = absl::StrCat("choosing an algorithm for ", Describe(product), ": its heuristics list none with ",
                                 product.workspace_bytes, " bytes of workspace");
  for (const bool whole : {true, false}) {
    if (!whole && !HasMore(product)) continue;
    const absl::Status ready = ListAlgorithms(api, handle_, whole ? product : Alone(product), &listed->candidates);
    if (HasNone(ready)) {
      listed->refusal = std::string(ready.message());
    } else {
      SNUG_RETURN_IF_ERROR(ready);
    }
  }
  known = std::move(listed);
  return known->refused() ? absl::UnimplementedError(known->refusal) : absl::OkStatus();
}

absl::StatusOr<bool> CublasMatMuls::Run(const CublasMatMul& product, const CublasArguments& arguments) {
  refused_algorithm_ = nullptr;
  SNUG_RETURN_IF_ERROR(Settle(product));
  SNUG_RETURN_IF_ERROR(stream_.device().MakeCurrent());
  Algorithms* const known = algorithms_[product].get();
  for (; !known->refused(); ++known->taken) {
    const Candidate& candidate = known->candidates[known->taken];
    const CublasMatMul form = candidate.whole ? product : Alone(product);
    const Beside beside = {form.sums_a ? arguments.sums : arguments.bias, arguments.c};
    Description description;
    SNUG_RETURN_IF_ERROR(DescribeAll(stream_.device().api(), form, beside, &description));
    const absl::Status asked = Ask(stream_, handle_, form, arguments, &description, candidate.algorithm);
    if (!Refuses(asked)) {
      SNUG_RETURN_IF_ERROR(asked);
      if (known->taken > 0) refused_algorithm_ = &known->refusal;
      return candidate.whole;
    }
    known->refusal = std::string(asked.message());
  }
  return absl::UnimplementedError(known->refusal);
}

#else

// No product gets here, because a library that this build does not know is never there.
struct CublasMatMuls::Algorithms {};
CublasMatMuls::CublasMatMuls(CudaStream& stream, cublasLtContext* handle) : stream_(stream), handle_(handle) {}
CublasMatMuls::~CublasMatMuls() = default;
absl::StatusOr<std::unique_ptr<CublasMatMuls>> CublasMatMuls::Create(CudaStream&) {
  return absl::FailedPreconditionError("this build has no cuBLASLt");
}
absl::Status CublasMatMuls::Settle(const CublasMatMul&) {
  return absl::UnimplementedError("this build has no cuBLASLt");
}
absl::StatusOr<bool> CublasMatMuls::Run(const CublasMatMul&, const CublasArguments&) {
  return absl::UnimplementedError("this build has no cuBLASLt");
}

#endif

}  // namespace snug::core::cuda
