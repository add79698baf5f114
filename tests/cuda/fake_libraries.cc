// The pretended cuBLASLt and cuDNN, which do on the host what is asked of them (fake_cublas.h, fake_cudnn.h).
#include <functional>
#include <utility>

#include "tests/cuda/fake_cublas.h"
#include "tests/cuda/fake_cuda_table.h"
#include "tests/cuda/fake_cudnn.h"

namespace snug::core::cuda {
namespace {

// Descriptors are counted, to see that all are given back.
template <class Inside, class Descriptor>
cudnnStatus_t NewDescriptor(State& s, Descriptor* to) {
  ++s.cudnn_descriptors;
  *to = reinterpret_cast<Descriptor>(new Inside());
  return CUDNN_STATUS_SUCCESS;
}
template <class Inside, class Descriptor>
cudnnStatus_t DeleteDescriptor(State& s, Descriptor descriptor) {
  --s.cudnn_descriptors;
  delete reinterpret_cast<Inside*>(descriptor);
  return CUDNN_STATUS_SUCCESS;
}
template <class Inside, class Descriptor>
Inside& Within(Descriptor descriptor) {
  return *reinterpret_cast<Inside*>(descriptor);
}

// The three kinds of convolution have the same heuristics, workspaces and work.
template <class Performance>
cudnnStatus_t ListAlgorithms(State& s, fake_cudnn::Kind kind, cudnnTensorDescriptor_t x, cudnnFilterDescriptor_t w,
                             cudnnTensorDescriptor_t y, cudnnConvolutionDescriptor_t conv, int asked, int* count,
                             Performance* to) {
  *count = 0;
  if (s.Forbidden()) return CUDNN_STATUS_EXECUTION_FAILED;
  if (s.options.libraries == FakeLibraries::kRefuse) return CUDNN_STATUS_NOT_SUPPORTED_LAYOUT;
  const cudnnStatus_t status = Check(kind, Within<fake_cudnn::Tensor>(x), Within<fake_cudnn::Tensor>(w),
                                     Within<fake_cudnn::Tensor>(y), Within<fake_cudnn::Convolution>(conv));
  if (status == CUDNN_STATUS_SUCCESS) fake_cudnn::List(kind, asked, count, to);
  return status;
}
cudnnStatus_t Convolve(State& s, cudnnHandle_t handle, fake_cudnn::Call call, cudnnTensorDescriptor_t x,
                       cudnnFilterDescriptor_t w, cudnnTensorDescriptor_t y, cudnnConvolutionDescriptor_t conv) {
  call.x = Within<fake_cudnn::Tensor>(x);
  call.w = Within<fake_cudnn::Tensor>(w);
  call.y = Within<fake_cudnn::Tensor>(y);
  call.conv = Within<fake_cudnn::Convolution>(conv);
  std::function<void()> work;
  const cudnnStatus_t status = Bind(call, &work);
  if (status != CUDNN_STATUS_SUCCESS) return status;
  s.algorithms.push_back(call.algorithm);
  s.Push(*reinterpret_cast<CUstream*>(handle), std::move(work));
  return status;
}

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
SNUG_FAKE(cudnnCreateTensorDescriptor, cudnnTensorDescriptor_t* to) { return NewDescriptor<fake_cudnn::Tensor>(s, to); }
SNUG_FAKE(cudnnDestroyTensorDescriptor, cudnnTensorDescriptor_t one) {
  return DeleteDescriptor<fake_cudnn::Tensor>(s, one);
}
SNUG_FAKE(cudnnSetTensor4dDescriptor, cudnnTensorDescriptor_t to, cudnnTensorFormat_t format, cudnnDataType_t type,
          int n, int c, int h, int w) {
  Within<fake_cudnn::Tensor>(to) = {format, type, {n, c, h, w}};
  return CUDNN_STATUS_SUCCESS;
}
SNUG_FAKE(cudnnCreateFilterDescriptor, cudnnFilterDescriptor_t* to) { return NewDescriptor<fake_cudnn::Tensor>(s, to); }
SNUG_FAKE(cudnnDestroyFilterDescriptor, cudnnFilterDescriptor_t one) {
  return DeleteDescriptor<fake_cudnn::Tensor>(s, one);
}
SNUG_FAKE(cudnnSetFilter4dDescriptor, cudnnFilterDescriptor_t to, cudnnDataType_t type, cudnnTensorFormat_t format,
          int k, int c, int h, int w) {
  Within<fake_cudnn::Tensor>(to) = {format, type, {k, c, h, w}};
  return CUDNN_STATUS_SUCCESS;
}
SNUG_FAKE(cudnnCreateActivationDescriptor, cudnnActivationDescriptor_t* to) {
  return NewDescriptor<fake_cudnn::Activation>(s, to);
}
SNUG_FAKE(cudnnDestroyActivationDescriptor, cudnnActivationDescriptor_t one) {
  return DeleteDescriptor<fake_cudnn::Activation>(s, one);
}
SNUG_FAKE(cudnnSetActivationDescriptor, cudnnActivationDescriptor_t to, cudnnActivationMode_t mode,
          cudnnNanPropagation_t, double) {
  Within<fake_cudnn::Activation>(to) = {mode};
  return CUDNN_STATUS_SUCCESS;
}
SNUG_FAKE(cudnnCreateConvolutionDescriptor, cudnnConvolutionDescriptor_t* to) {
  return NewDescriptor<fake_cudnn::Convolution>(s, to);
}
SNUG_FAKE(cudnnDestroyConvolutionDescriptor, cudnnConvolutionDescriptor_t one) {
  return DeleteDescriptor<fake_cudnn::Convolution>(s, one);
}
SNUG_FAKE(cudnnSetConvolution2dDescriptor, cudnnConvolutionDescriptor_t to, int pad_h, int pad_w, int stride_h,
          int stride_w, int dilation_h, int dilation_w, cudnnConvolutionMode_t mode, cudnnDataType_t compute) {
  Within<fake_cudnn::Convolution>(to) = {
      {pad_h, pad_w}, {stride_h, stride_w}, {dilation_h, dilation_w}, mode, compute, 1, CUDNN_DEFAULT_MATH};
  return CUDNN_STATUS_SUCCESS;
}
SNUG_FAKE(cudnnSetConvolutionGroupCount, cudnnConvolutionDescriptor_t to, int groups) {
  Within<fake_cudnn::Convolution>(to).groups = groups;
  return CUDNN_STATUS_SUCCESS;
}
SNUG_FAKE(cudnnSetConvolutionMathType, cudnnConvolutionDescriptor_t to, cudnnMathType_t math) {
  Within<fake_cudnn::Convolution>(to).math = math;
  return CUDNN_STATUS_SUCCESS;
}

SNUG_FAKE(cudnnGetConvolutionForwardAlgorithm_v7, cudnnHandle_t, cudnnTensorDescriptor_t x, cudnnFilterDescriptor_t w,
          cudnnConvolutionDescriptor_t conv, cudnnTensorDescriptor_t y, int asked, int* count,
          cudnnConvolutionFwdAlgoPerf_t* to) {
  return ListAlgorithms(s, fake_cudnn::Kind::kForward, x, w, y, conv, asked, count, to);
}
SNUG_FAKE(cudnnGetConvolutionForwardWorkspaceSize, cudnnHandle_t, cudnnTensorDescriptor_t, cudnnFilterDescriptor_t,
          cudnnConvolutionDescriptor_t, cudnnTensorDescriptor_t, cudnnConvolutionFwdAlgo_t algorithm, size_t* bytes) {
  *bytes = fake_cudnn::WorkspaceBytes(fake_cudnn::Kind::kForward, algorithm);
  return CUDNN_STATUS_SUCCESS;
}
SNUG_FAKE(cudnnConvolutionForward, cudnnHandle_t handle, const void* alpha, cudnnTensorDescriptor_t x,
          const void* x_data, cudnnFilterDescriptor_t w, const void* w_data, cudnnConvolutionDescriptor_t conv,
          cudnnConvolutionFwdAlgo_t algorithm, void* workspace, size_t workspace_bytes, const void* beta,
          cudnnTensorDescriptor_t y, void* y_data) {
  // Of those that fit into a workspace it is listed first.
  if (s.options.libraries == FakeLibraries::kServeOthers && algorithm == CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM) {
    return CUDNN_STATUS_NOT_SUPPORTED;
  }
  return Convolve(s, handle,
                  {.kind = fake_cudnn::Kind::kForward,
                   .data = x_data,
                   .factor = w_data,
                   .result = y_data,
                   .algorithm = algorithm,
                   .workspace = workspace,
                   .workspace_bytes = workspace_bytes,
                   .alpha = alpha,
                   .beta = beta},
                  x, w, y, conv);
}
SNUG_FAKE(cudnnConvolutionBiasActivationForward, cudnnHandle_t handle, const void* alpha, cudnnTensorDescriptor_t x,
          const void* x_data, cudnnFilterDescriptor_t w, const void* w_data, cudnnConvolutionDescriptor_t conv,
          cudnnConvolutionFwdAlgo_t algorithm, void* workspace, size_t workspace_bytes, const void* beta,
          cudnnTensorDescriptor_t z, const void* z_data, cudnnTensorDescriptor_t bias, const void* bias_data,
          cudnnActivationDescriptor_t activation, cudnnTensorDescriptor_t y, void* y_data) {
  if (z != y || z_data != y_data) return CUDNN_STATUS_BAD_PARAM;
  if (s.options.libraries == FakeLibraries::kServeUnfused) {
    return algorithm == CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM ? CUDNN_STATUS_BAD_PARAM : CUDNN_STATUS_NOT_SUPPORTED;
  }
  return Convolve(s, handle,
                  {.kind = fake_cudnn::Kind::kForward,
                   .data = x_data,
                   .factor = w_data,
                   .result = y_data,
                   .algorithm = algorithm,
                   .workspace = workspace,
                   .workspace_bytes = workspace_bytes,
                   .alpha = alpha,
                   .beta = beta,
                   .activation = &Within<fake_cudnn::Activation>(activation),
                   .bias_type = Within<fake_cudnn::Tensor>(bias),
                   .bias = bias_data},
                  x, w, y, conv);
}
SNUG_FAKE(cudnnGetConvolutionBackwardDataAlgorithm_v7, cudnnHandle_t, cudnnFilterDescriptor_t w,
          cudnnTensorDescriptor_t y, cudnnConvolutionDescriptor_t conv, cudnnTensorDescriptor_t x, int asked,
          int* count, cudnnConvolutionBwdDataAlgoPerf_t* to) {
  return ListAlgorithms(s, fake_cudnn::Kind::kGradInput, x, w, y, conv, asked, count, to);
}
SNUG_FAKE(cudnnGetConvolutionBackwardDataWorkspaceSize, cudnnHandle_t, cudnnFilterDescriptor_t, cudnnTensorDescriptor_t,
          cudnnConvolutionDescriptor_t, cudnnTensorDescriptor_t, cudnnConvolutionBwdDataAlgo_t algorithm,
          size_t* bytes) {
  *bytes = fake_cudnn::WorkspaceBytes(fake_cudnn::Kind::kGradInput, algorithm);
  return CUDNN_STATUS_SUCCESS;
}
SNUG_FAKE(cudnnConvolutionBackwardData, cudnnHandle_t handle, const void* alpha, cudnnFilterDescriptor_t w,
          const void* w_data, cudnnTensorDescriptor_t y, const void* y_data, cudnnConvolutionDescriptor_t conv,
          cudnnConvolutionBwdDataAlgo_t algorithm, void* workspace, size_t workspace_bytes, const void* beta,
          cudnnTensorDescriptor_t x, void* x_data) {
  return Convolve(s, handle,
                  {.kind = fake_cudnn::Kind::kGradInput,
                   .data = y_data,
                   .factor = w_data,
                   .result = x_data,
                   .algorithm = algorithm,
                   .workspace = workspace,
                   .workspace_bytes = workspace_bytes,
                   .alpha = alpha,
                   .beta = beta},
                  x, w, y, conv);
}
SNUG_FAKE(cudnnGetConvolutionBackwardFilterAlgorithm_v7, cudnnHandle_t, cudnnTensorDescriptor_t x,
          cudnnTensorDescriptor_t y, cudnnConvolutionDescriptor_t conv, cudnnFilterDescriptor_t w, int asked,
          int* count, cudnnConvolutionBwdFilterAlgoPerf_t* to) {
  return ListAlgorithms(s, fake_cudnn::Kind::kGradWeight, x, w, y, conv, asked, count, to);
}
SNUG_FAKE(cudnnGetConvolutionBackwardFilterWorkspaceSize, cudnnHandle_t, cudnnTensorDescriptor_t,
          cudnnTensorDescriptor_t, cudnnConvolutionDescriptor_t, cudnnFilterDescriptor_t,
          cudnnConvolutionBwdFilterAlgo_t algorithm, size_t* bytes) {
  *bytes = fake_cudnn::WorkspaceBytes(fake_cudnn::Kind::kGradWeight, algorithm);
  return CUDNN_STATUS_SUCCESS;
}
SNUG_FAKE(cudnnConvolutionBackwardFilter, cudnnHandle_t handle, const void* alpha, cudnnTensorDescriptor_t x,
          const void* x_data, cudnnTensorDescriptor_t y, const void* y_data, cudnnConvolutionDescriptor_t conv,
          cudnnConvolutionBwdFilterAlgo_t algorithm, void* workspace, size_t workspace_bytes, const void* beta,
          cudnnFilterDescriptor_t w, void* w_data) {
  return Convolve(s, handle,
                  {.kind = fake_cudnn::Kind::kGradWeight,
                   .data = x_data,
                   .factor = y_data,
                   .result = w_data,
                   .algorithm = algorithm,
                   .workspace = workspace,
                   .workspace_bytes = workspace_bytes,
                   .alpha = alpha,
                   .beta = beta},
                  x, w, y, conv);
}

void fake::FillLibraries(Table* table) {
  struct File {};
  FillEntries<File>(table);
}

}  // namespace snug::core::cuda
