#include "engine/cuda/cudnn_conv.h"

#include <absl/strings/str_cat.h>
#include <absl/strings/str_join.h>

#include <algorithm>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "engine/base/status.h"
#include "engine/cuda/cuda_libraries.h"
#include "engine/cuda/cuda_table.h"

namespace snug::core::cuda {

#if SNUG_HAS_CUDNN

namespace {

// Owns a description that the library keeps. `destroy` is its entry in the table.
template <class Handle, auto destroy>
struct Descriptor {
  explicit Descriptor(const Api& of) : api(of) {}
  ~Descriptor() {
    if (handle != nullptr) (api.table().*destroy)(handle);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;

  const Api& api;
  Handle handle = nullptr;
};
using TensorDescriptor = Descriptor<cudnnTensorDescriptor_t, &Table::cudnnDestroyTensorDescriptor>;
using FilterDescriptor = Descriptor<cudnnFilterDescriptor_t, &Table::cudnnDestroyFilterDescriptor>;
using ConvDescriptor = Descriptor<cudnnConvolutionDescriptor_t, &Table::cudnnDestroyConvolutionDescriptor>;
using ActivationDescriptor = Descriptor<cudnnActivationDescriptor_t, &Table::cudnnDestroyActivationDescriptor>;

struct Candidate {
  int algorithm;
  size_t workspace_bytes;
  bool fused;  // whether bias and activation are included
};

constexpr int kAlgorithmsAsked = 16;  // more than there are of any kind

cudnnDataType_t CudnnType(DType dtype) { return dtype == DType::kBFloat16 ? CUDNN_DATA_BFLOAT16 : CUDNN_DATA_FLOAT; }

// The library's default is what permits TF32. It never turns float32 into float16.
cudnnMathType_t MathType(const CudnnConv& conv) {
  if (conv.dtype == DType::kBFloat16) return CUDNN_TENSOR_OP_MATH;
  return conv.tf32 ? CUDNN_DEFAULT_MATH : CUDNN_FMA_MATH;
}

cudnnTensorFormat_t Format(const CudnnConv& conv) { return conv.channels_last ? CUDNN_TENSOR_NHWC : CUDNN_TENSOR_NCHW; }

std::string Describe(const CudnnConv& conv) {
  constexpr absl::string_view kKinds[] = {"the convolution", "the gradient of x of the convolution",
                                          "the gradient of w of the convolution"};
  return absl::StrCat(kKinds[static_cast<size_t>(conv.kind)], " of [", absl::StrJoin(conv.x, ", "), "] with [",
                      absl::StrJoin(conv.w, ", "), "]", conv.channels_last ? " nhwc" : "", " in ", Name(conv.dtype),
                      conv.tf32 ? " with TF32" : "");
}

}  // namespace

struct CudnnPlan {
  explicit CudnnPlan(const Api& api) : x(api), y(api), bias(api), w(api), conv(api), activation(api) {}

  TensorDescriptor x, y, bias;
  FilterDescriptor w;
  ConvDescriptor conv;
  ActivationDescriptor activation;
  std::vector<Candidate> candidates;
  size_t taken = 0;     // the library refused those before it
  std::string refusal;  // what the library said last when it refused one of them, or the convolution
  // What it said last when it refused one that its heuristics list; empty: it did not. A convolution with the bias in
  // it is in no list: it is our guess that an algorithm can do that, too, and a sweep of ours after it if it cannot.
  std::string refusal_of_listed;
};

namespace {

absl::Status DescribeTensor(const Api& api, const CudnnConv& conv, const std::array<int32_t, 4>& dims,
                            TensorDescriptor* tensor) {
  SNUG_CUDA_CALL(api, cudnnCreateTensorDescriptor, (&tensor->handle), absl::StrCat("describing ", Describe(conv)));
  SNUG_CUDA_CALL(api, cudnnSetTensor4dDescriptor,
                 (tensor->handle, Format(conv), CudnnType(conv.dtype), dims[0], dims[1], dims[2], dims[3]),
                 absl::StrCat("describing ", Describe(conv)));
  return absl::OkStatus();
}

absl::Status DescribeActivation(const Api& api, const CudnnConv& conv, ActivationDescriptor* activation) {
  SNUG_CUDA_CALL(api, cudnnCreateActivationDescriptor, (&activation->handle),
                 absl::StrCat("describing ", Describe(conv)));
  SNUG_CUDA_CALL(
      api, cudnnSetActivationDescriptor,
      (activation->handle, conv.relu ? CUDNN_ACTIVATION_RELU : CUDNN_ACTIVATION_IDENTITY, CUDNN_PROPAGATE_NAN, 0.0),
      absl::StrCat("describing ", Describe(conv)));
  return absl::OkStatus();
}

absl::Status DescribeConv(const Api& api, const CudnnConv& conv, ConvDescriptor* descriptor) {
  SNUG_CUDA_CALL(api, cudnnCreateConvolutionDescriptor, (&descriptor->handle),
                 absl::StrCat("describing ", Describe(conv)));
  SNUG_CUDA_CALL(api, cudnnSetConvolution2dDescriptor,
                 (descriptor->handle, conv.pad[0], conv.pad[1], conv.stride[0], conv.stride[1], conv.dilation[0],
                  conv.dilation[1], CUDNN_CROSS_CORRELATION, CUDNN_DATA_FLOAT),
                 absl::StrCat("describing ", Describe(conv)));
  SNUG_CUDA_CALL(api, cudnnSetConvolutionGroupCount, (descriptor->handle, conv.groups),
                 absl::StrCat("describing ", Describe(conv)));
  SNUG_CUDA_CALL(api, cudnnSetConvolutionMathType, (descriptor->handle, MathType(conv)),
                 absl::StrCat("describing ", Describe(conv)));
  return absl::OkStatus();
}

absl::Status DescribeWeights(const Api& api, const CudnnConv& conv, FilterDescriptor* filter) {
  SNUG_CUDA_CALL(api, cudnnCreateFilterDescriptor, (&filter->handle), absl::StrCat("describing ", Describe(conv)));
  SNUG_CUDA_CALL(api, cudnnSetFilter4dDescriptor,
                 (filter->handle, CudnnType(conv.dtype), Format(conv), conv.w[0], conv.w[1], conv.w[2], conv.w[3]),
                 absl::StrCat("describing ", Describe(conv)));
  return absl::OkStatus();
}

absl::Status DescribeAll(const Api& api, const CudnnConv& conv, CudnnPlan* plan) {
  SNUG_RETURN_IF_ERROR(DescribeTensor(api, conv, conv.x, &plan->x));
  SNUG_RETURN_IF_ERROR(DescribeTensor(api, conv, conv.y, &plan->y));
  SNUG_RETURN_IF_ERROR(DescribeWeights(api, conv, &plan->w));
  SNUG_RETURN_IF_ERROR(DescribeConv(api, conv, &plan->conv));
  if (!conv.bias) return absl::OkStatus();
  SNUG_RETURN_IF_ERROR(DescribeTensor(api, conv, {1, conv.w[0], 1, 1}, &plan->bias));
  return DescribeActivation(api, conv, &plan->activation);
}

// Returns the algorithms in the heuristics' list, the fastest first.
template <class Performance>
std::vector<int> WhatIsWanted(const CudnnConv& conv, const std::array<Performance, kAlgorithmsAsked>& listed,
                              int count) {
  std::vector<int> algorithms;
  for (int i = 0; i < std::min(count, kAlgorithmsAsked); ++i) {
    const Performance& one = listed[static_cast<size_t>(i)];
    const int algorithm = static_cast<int>(one.algo);
    const bool known = std::find(algorithms.begin(), algorithms.end(), algorithm) != algorithms.end();
    const bool wanted = conv.fast || one.determinism == CUDNN_DETERMINISTIC;
    if (one.status == CUDNN_STATUS_SUCCESS && wanted && !known) algorithms.push_back(algorithm);
  }
  return algorithms;
}

absl::StatusOr<std::vector<int>> ListAlgorithms(const Api& api, cudnnHandle_t handle, const CudnnConv& conv,
                                                const CudnnPlan& p) {
  int count = 0;
  switch (conv.kind) {
    case CudnnConvKind::kForward: {
      std::array<cudnnConvolutionFwdAlgoPerf_t, kAlgorithmsAsked> listed = {};
      SNUG_CUDA_CALL(
          api, cudnnGetConvolutionForwardAlgorithm_v7,
          (handle, p.x.handle, p.w.handle, p.conv.handle, p.y.handle, kAlgorithmsAsked, &count, listed.data()),
          absl::StrCat("choosing an algorithm for ", Describe(conv)));
      return WhatIsWanted(conv, listed, count);
    }
    case CudnnConvKind::kGradInput: {
      std::array<cudnnConvolutionBwdDataAlgoPerf_t, kAlgorithmsAsked> listed = {};
      SNUG_CUDA_CALL(
          api, cudnnGetConvolutionBackwardDataAlgorithm_v7,
          (handle, p.w.handle, p.y.handle, p.conv.handle, p.x.handle, kAlgorithmsAsked, &count, listed.data()),
          absl::StrCat("choosing an algorithm for ", Describe(conv)));
      return WhatIsWanted(conv, listed, count);
    }
    case CudnnConvKind::kGradWeight: {
      std::array<cudnnConvolutionBwdFilterAlgoPerf_t, kAlgorithmsAsked> listed = {};
      SNUG_CUDA_CALL(
          api, cudnnGetConvolutionBackwardFilterAlgorithm_v7,
          (handle, p.x.handle, p.y.handle, p.conv.handle, p.w.handle, kAlgorithmsAsked, &count, listed.data()),
          absl::StrCat("choosing an algorithm for ", Describe(conv)));
      return WhatIsWanted(conv, listed, count);
    }
  }
  return std::vector<int>();
}

absl::StatusOr<size_t> WorkspaceBytes(const Api& api, cudnnHandle_t handle, const CudnnConv& conv, const CudnnPlan& p,
                                      int algorithm) {
  size_t bytes = 0;
  switch (conv.kind) {
    case CudnnConvKind::kForward:
      SNUG_CUDA_CALL(api, cudnnGetConvolutionForwardWorkspaceSize,
                     (handle, p.x.handle, p.w.handle, p.conv.handle, p.y.handle,
                      static_cast<cudnnConvolutionFwdAlgo_t>(algorithm), &bytes),
                     absl::StrCat("asking for the workspace of ", Describe(conv)));
      break;
    case CudnnConvKind::kGradInput:
      SNUG_CUDA_CALL(api, cudnnGetConvolutionBackwardDataWorkspaceSize,
                     (handle, p.w.handle, p.y.handle, p.conv.handle, p.x.handle,
                      static_cast<cudnnConvolutionBwdDataAlgo_t>(algorithm), &bytes),
                     absl::StrCat("asking for the workspace of ", Describe(conv)));
      break;
    case CudnnConvKind::kGradWeight:
      SNUG_CUDA_CALL(api, cudnnGetConvolutionBackwardFilterWorkspaceSize,
                     (handle, p.x.handle, p.y.handle, p.conv.handle, p.w.handle,
                      static_cast<cudnnConvolutionBwdFilterAlgo_t>(algorithm), &bytes),
                     absl::StrCat("asking for the workspace of ", Describe(conv)));
      break;
  }
  return bytes;
}

absl::Status FindCandidates(const Api& api, cudnnHandle_t handle, const CudnnConv& conv, CudnnPlan* plan) {
  SNUG_ASSIGN_OR_RETURN(const std::vector<int> algorithms, ListAlgorithms(api, handle, conv, *plan));
  std::vector<Candidate> alone;
  plan->refusal = absl::StrCat("choosing an algorithm for ", Describe(conv), ": its heuristics list none",
                               conv.fast ? "" : " that gives the same bits each time");
  size_t least_bytes = std::numeric_limits<size_t>::max();  // the least that is wanted by those that want too much
  for (const int algorithm : algorithms) {
    const absl::StatusOr<size_t> bytes = WorkspaceBytes(api, handle, conv, *plan, algorithm);
    if (Refuses(bytes.status())) {
      plan->refusal = std::string(bytes.status().message());
      continue;
    }
    SNUG_RETURN_IF_ERROR(bytes.status());
    if (*bytes <= static_cast<size_t>(conv.workspace_bytes)) {
      alone.push_back({algorithm, *bytes, /*fused=*/false});
    } else if (*bytes < least_bytes) {
      least_bytes = *bytes;
      plan->refusal = absl::StrCat("choosing an algorithm for ", Describe(conv), ": at least ", least_bytes,
                                   " bytes of workspace are wanted, and ", conv.workspace_bytes, " are planned");
    }
  }
  if (alone.empty()) return absl::OkStatus();
  const auto last = static_cast<std::ptrdiff_t>(alone.size()) - 1;
  std::rotate(alone.begin(), alone.begin() + std::min<std::ptrdiff_t>(conv.rank - 1, last), alone.end());
  // An algorithm that adds the bias is worth more than a faster one that does not. But if an algorithm was asked for,
  // it is taken.
  const bool asked_for = conv.rank > 1;
  for (const Candidate& candidate : alone) {
    // If there is no relu, only one of the library's algorithms adds a bias.
    const bool adds = conv.relu || candidate.algorithm == CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM;
    if (conv.bias && adds) plan->candidates.push_back({candidate.algorithm, candidate.workspace_bytes, /*fused=*/true});
    if (asked_for) plan->candidates.push_back(candidate);
  }
  if (!asked_for) plan->candidates.insert(plan->candidates.end(), alone.begin(), alone.end());
  return absl::OkStatus();
}

constexpr float kOne = 1, kZero = 0;

absl::Status AskForward(const Api& api, cudnnHandle_t handle, const CudnnConv& conv, const CudnnPlan& p,
                        const Candidate& by, const CudnnArguments& at) {
  const auto algorithm = static_cast<cudnnConvolutionFwdAlgo_t>(by.algorithm);
  if (by.fused) {
    SNUG_CUDA_CALL(api, cudnnConvolutionBiasActivationForward,
                   (handle, &kOne, p.x.handle, at.data, p.w.handle, at.factor, p.conv.handle, algorithm, at.workspace,
                    by.workspace_bytes, &kZero, p.y.handle, at.result, p.bias.handle, at.bias, p.activation.handle,
                    p.y.handle, at.result),
                   absl::StrCat("asking for ", Describe(conv)));
  } else {
    SNUG_CUDA_CALL(api, cudnnConvolutionForward,
                   (handle, &kOne, p.x.handle, at.data, p.w.handle, at.factor, p.conv.handle, algorithm, at.workspace,
                    by.workspace_bytes, &kZero, p.y.handle, at.result),
                   absl::StrCat("asking for ", Describe(conv)));
  }
  return absl::OkStatus();
}

absl::Status Ask(const Api& api, cudnnHandle_t handle, const CudnnConv& conv, const CudnnPlan& p, const Candidate& by,
                 const CudnnArguments& at) {
  switch (conv.kind) {
    case CudnnConvKind::kForward:
      return AskForward(api, handle, conv, p, by, at);
    case CudnnConvKind::kGradInput:
      SNUG_CUDA_CALL(api, cudnnConvolutionBackwardData,
                     (handle, &kOne, p.w.handle, at.factor, p.y.handle, at.data, p.conv.handle,
                      static_cast<cudnnConvolutionBwdDataAlgo_t>(by.algorithm), at.workspace, by.workspace_bytes,
                      &kZero, p.x.handle, at.result),
                     absl::StrCat("asking for ", Describe(conv)));
      break;
    case CudnnConvKind::kGradWeight:
      SNUG_CUDA_CALL(api, cudnnConvolutionBackwardFilter,
                     (handle, &kOne, p.x.handle, at.data, p.y.handle, at.factor, p.conv.handle,
                      static_cast<cudnnConvolutionBwdFilterAlgo_t>(by.algorithm), at.workspace, by.workspace_bytes,
                      &kZero, p.w.handle, at.result),
                     absl::StrCat("asking for ", Describe(conv)));
      break;
  }
  return absl::OkStatus();
}

}  // namespace

CudnnConvs::CudnnConvs(CudaStream& stream, cudnnContext* handle) : stream_(stream), handle_(handle) {}

absl::StatusOr<std::unique_ptr<CudnnConvs>> CudnnConvs::Create(CudaStream& stream) {
  SNUG_RETURN_IF_ERROR(stream.device().MakeCurrent());
  cudnnHandle_t handle = nullptr;
  SNUG_CUDA_CALL(stream.device().api(), cudnnCreate, (&handle), "starting cuDNN");
  std::unique_ptr<CudnnConvs> convs(new CudnnConvs(stream, handle));
  SNUG_CUDA_CALL(stream.device().api(), cudnnSetStream, (handle, stream.handle()), "starting cuDNN on a stream");
  return convs;
}

CudnnConvs::~CudnnConvs() {
  stream_.device().MakeCurrent().IgnoreError();  // the handle is given back whatever happened
  plans_.clear();
  stream_.device().api().table().cudnnDestroy(handle_);
}

absl::Status CudnnConvs::Settle(const CudnnConv& conv) {
  const Api& api = stream_.device().api();
  SNUG_RETURN_IF_ERROR(stream_.device().MakeCurrent());
  auto found = plans_.find(conv);
  if (found == plans_.end()) {
    auto plan = std::make_unique<CudnnPlan>(api);
    absl::Status made = DescribeAll(api, conv, plan.get());
    if (made.ok()) made = FindCandidates(api, handle_, conv, plan.get());
    if (Refuses(made)) {
      plan->candidates.clear();
      plan->refusal = std::string(made.message());
    } else {
      SNUG_RETURN_IF_ERROR(made);
    }
    found = plans_.emplace(conv, std::move(plan)).first;
  }
  const CudnnPlan& plan = *found->second;
  return plan.taken < plan.candidates.size() ? absl::OkStatus() : absl::UnimplementedError(plan.refusal);
}

absl::StatusOr<bool> CudnnConvs::Run(const CudnnConv& conv, const CudnnArguments& arguments) {
  refused_algorithm_ = nullptr;
  SNUG_RETURN_IF_ERROR(Settle(conv));
  const Api& api = stream_.device().api();
  CudnnPlan& plan = *plans_.at(conv);
  for (; plan.taken < plan.candidates.size(); ++plan.taken) {
    const Candidate& candidate = plan.candidates[plan.taken];
    const absl::Status status = Ask(api, handle_, conv, plan, candidate, arguments);
    if (!Refuses(status)) {
      SNUG_RETURN_IF_ERROR(status);
      if (!plan.refusal_of_listed.empty()) refused_algorithm_ = &plan.refusal_of_listed;
      return candidate.fused;
    }
    plan.refusal = std::string(status.message());
    if (!candidate.fused) plan.refusal_of_listed = plan.refusal;
  }
  return absl::UnimplementedError(plan.refusal);
}

#else

// No convolution gets here, because a library that this build does not know is never there.
struct CudnnPlan {};
CudnnConvs::CudnnConvs(CudaStream& stream, cudnnContext* handle) : stream_(stream), handle_(handle) {}
CudnnConvs::~CudnnConvs() = default;
absl::StatusOr<std::unique_ptr<CudnnConvs>> CudnnConvs::Create(CudaStream&) {
  return absl::FailedPreconditionError("this build has no cuDNN");
}
absl::Status CudnnConvs::Settle(const CudnnConv&) { return absl::UnimplementedError("this build has no cuDNN"); }
absl::StatusOr<bool> CudnnConvs::Run(const CudnnConv&, const CudnnArguments&) {
  return absl::UnimplementedError("this build has no cuDNN");
}

#endif

}  // namespace snug::core::cuda
