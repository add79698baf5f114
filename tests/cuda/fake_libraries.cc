// The pretended cuBLASLt and cuDNN, which do on the host what is asked of them (fake_cublas.h, fake_cudnn.h).
#include <functional>
#include <utility>

#include "tests/cuda/cudnn/fake_cudnn.h"
#include "tests/cuda/fake_cublas.h"
#include "tests/cuda/fake_cuda_table.h"

namespace snug::core::cuda {
namespace {

using CudnnDescriptor = fake_cudnn::Descriptor;

}  // namespace

SNUG_FAKE(cublasLtGetVersion)->size_t { return 130000; }
SNUG_FAKE(cublasLtGetStatusName, cublasStatus_t)->const char* { return "CUBLAS_STATUS_INTERNAL_ERROR"; }
SNUG_FAKE(cublasLtGetStatusString, cublasStatus_t)->const char* { return "the library failed"; }
SNUG_FAKE(cublasLtCreate, cublasLtHandle_t* handle) {
  if (s.Forbidden()) return CUBLAS_STATUS_EXECUTION_FAILED;
  ++s.cublas_handles;
  *handle = reinterpret_cast<cublasLtHandle_t>(&s.cublas_handles);
  return CUBLAS_STATUS_SUCCESS;
}
SNUG_FAKE(cublasLtDestroy, cublasLtHandle_t) {
  --s.cublas_handles;
  return CUBLAS_STATUS_SUCCESS;
}
SNUG_FAKE(cublasLtMatmulDescInit_internal, cublasLtMatmulDesc_t to, size_t bytes, cublasComputeType_t compute,
          cudaDataType_t scale) {
  if (s.options.libraries == FakeLibraries::kNewer) return CUBLAS_STATUS_ALLOC_FAILED;
  return fake_cublas::Describe(to, bytes, compute, scale);
}
SNUG_FAKE(cublasLtMatmulDescSetAttribute, cublasLtMatmulDesc_t to, cublasLtMatmulDescAttributes_t attribute,
          const void* value, size_t bytes) {
  return fake_cublas::Set(to, attribute, value, bytes);
}
SNUG_FAKE(cublasLtMatrixLayoutInit_internal, cublasLtMatrixLayout_t to, size_t bytes, cudaDataType_t type,
          uint64_t rows, uint64_t columns, int64_t leading) {
  return fake_cublas::Describe(to, bytes, type, rows, columns, leading);
}
SNUG_FAKE(cublasLtMatrixLayoutSetAttribute, cublasLtMatrixLayout_t to, cublasLtMatrixLayoutAttribute_t attribute,
          const void* value, size_t bytes) {
  return fake_cublas::Set(to, attribute, value, bytes);
}
SNUG_FAKE(cublasLtMatmulPreferenceInit_internal, cublasLtMatmulPreference_t to, size_t bytes) {
  return fake_cublas::Describe(to, bytes);
}
SNUG_FAKE(cublasLtMatmulPreferenceSetAttribute, cublasLtMatmulPreference_t to,
          cublasLtMatmulPreferenceAttributes_t attribute, const void* value, size_t bytes) {
  return fake_cublas::Set(to, attribute, value, bytes);
}
SNUG_FAKE(cublasLtMatmulAlgoGetHeuristic, cublasLtHandle_t, cublasLtMatmulDesc_t operation, cublasLtMatrixLayout_t a,
          cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
          cublasLtMatmulPreference_t preference, int asked, cublasLtMatmulHeuristicResult_t* found, int* count) {
  using namespace fake_cublas;
  *count = 0;
  if (s.Forbidden()) return CUBLAS_STATUS_EXECUTION_FAILED;
  if (s.options.libraries == FakeLibraries::kRefuse) return CUBLAS_STATUS_NOT_SUPPORTED;
  if (c != d || asked < 1) return CUBLAS_STATUS_INVALID_VALUE;
  const uint32_t epilogue = Look<Operation>(operation).epilogue;
  const bool special = epilogue == CUBLASLT_EPILOGUE_BGRADB || epilogue == CUBLASLT_EPILOGUE_GELU_AUX ||
                       epilogue == CUBLASLT_EPILOGUE_GELU_AUX_BIAS;
  if (special && s.options.libraries == FakeLibraries::kServeUnfused) return CUBLAS_STATUS_NOT_SUPPORTED;
  return Choose(Look<Operation>(operation), Look<Matrix>(a), Look<Matrix>(b), Look<Matrix>(d),
                Look<Preference>(preference), asked, found, count);
}
SNUG_FAKE(cublasLtMatmul, cublasLtHandle_t handle, cublasLtMatmulDesc_t operation, const void* alpha, const void* a,
          cublasLtMatrixLayout_t a_layout, const void* b, cublasLtMatrixLayout_t b_layout, const void* beta,
          const void* c, cublasLtMatrixLayout_t, void* d, cublasLtMatrixLayout_t d_layout,
          const cublasLtMatmulAlgo_t* algorithm, void* workspace, size_t workspace_bytes, cudaStream_t stream) {
  using namespace fake_cublas;
  if (handle == nullptr || c != d) return CUBLAS_STATUS_INVALID_VALUE;
  if (s.options.libraries == FakeLibraries::kServeOthers && NumberOf(*algorithm) == 0) {
    return CUBLAS_STATUS_NOT_SUPPORTED;
  }
  std::function<void()> work;
  const cublasStatus_t status =
      Bind({Look<Operation>(operation), Look<Matrix>(a_layout), Look<Matrix>(b_layout), Look<Matrix>(d_layout), alpha,
            beta, a, b, d, algorithm, workspace, workspace_bytes},
           &work);
  if (status != CUBLAS_STATUS_SUCCESS) return status;
  s.algorithms.push_back(NumberOf(*algorithm));
  s.Push(stream, std::move(work));
  return status;
}
SNUG_FAKE(cudnnGetVersion)->size_t { return 91300; }
SNUG_FAKE(cudnnGetErrorString, cudnnStatus_t)->const char* { return "the library failed"; }
SNUG_FAKE(cudnnGetLastErrorString, char* message, size_t)->void { *message = 0; }

SNUG_FAKE(cudnnCreate, cudnnHandle_t* handle) {
  if (s.Forbidden()) return CUDNN_STATUS_EXECUTION_FAILED;
  *handle = reinterpret_cast<cudnnHandle_t>(new CUstream(nullptr));
  ++s.cudnn_handles;
  return CUDNN_STATUS_SUCCESS;
}
SNUG_FAKE(cudnnDestroy, cudnnHandle_t handle) {
  delete reinterpret_cast<CUstream*>(handle);
  --s.cudnn_handles;
  return CUDNN_STATUS_SUCCESS;
}
SNUG_FAKE(cudnnSetStream, cudnnHandle_t handle, cudaStream_t stream) {
  *reinterpret_cast<CUstream*>(handle) = stream;
  return CUDNN_STATUS_SUCCESS;
}
// Descriptors are counted, to see that all are given back.
SNUG_FAKE(cudnnBackendCreateDescriptor, cudnnBackendDescriptorType_t type, cudnnBackendDescriptor_t* to) {
  ++s.cudnn_descriptors;
  *to = new CudnnDescriptor{type};
  return CUDNN_STATUS_SUCCESS;
}
SNUG_FAKE(cudnnBackendDestroyDescriptor, cudnnBackendDescriptor_t one) {
  --s.cudnn_descriptors;
  delete static_cast<CudnnDescriptor*>(one);
  return CUDNN_STATUS_SUCCESS;
}
SNUG_FAKE(cudnnBackendSetAttribute, cudnnBackendDescriptor_t to, cudnnBackendAttributeName_t name,
          cudnnBackendAttributeType_t type, int64_t count, const void* values) {
  return fake_cudnn::Set(*static_cast<CudnnDescriptor*>(to), name, type, count, values);
}
SNUG_FAKE(cudnnBackendGetAttribute, cudnnBackendDescriptor_t from, cudnnBackendAttributeName_t name,
          cudnnBackendAttributeType_t type, int64_t room, int64_t* count, void* values) {
  return fake_cudnn::Get(*static_cast<const CudnnDescriptor*>(from), name, type, room, count, values);
}
SNUG_FAKE(cudnnBackendFinalize, cudnnBackendDescriptor_t one) {
  auto& descriptor = *static_cast<CudnnDescriptor*>(one);
  const bool chooses = descriptor.type == CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR ||
                       descriptor.type == CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR;
  if (chooses && s.Forbidden()) return CUDNN_STATUS_EXECUTION_FAILED;
  return fake_cudnn::Finish(descriptor, s.options.libraries);
}
SNUG_FAKE(cudnnBackendExecute, cudnnHandle_t handle, cudnnBackendDescriptor_t plan, cudnnBackendDescriptor_t pack) {
  std::function<void()> work;
  const auto& of = *static_cast<const CudnnDescriptor*>(plan);
  const cudnnStatus_t status =
      fake_cudnn::Bind(of, *static_cast<const CudnnDescriptor*>(pack), s.options.libraries, &work);
  if (status != CUDNN_STATUS_SUCCESS) return status;
  s.algorithms.push_back(of.engine);
  s.Push(*reinterpret_cast<CUstream*>(handle), std::move(work));
  return CUDNN_STATUS_SUCCESS;
}

void fake::FillLibraries(Table* table) {
  struct File {};
  FillEntries<File>(table);
}

}  // namespace snug::core::cuda
