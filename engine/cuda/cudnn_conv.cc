#include "engine/cuda/cudnn_conv.h"

#include <absl/strings/str_cat.h>
#include <absl/strings/str_join.h>

#include <utility>
#include <vector>

#include "engine/base/status.h"
#include "engine/cuda/cudnn_graph.h"

namespace snug::core::cuda {
namespace {

absl::Span<const int32_t> Dims(const CudnnConv& conv, const std::array<int32_t, 5>& dims) {
  return absl::MakeConstSpan(dims).subspan(0, static_cast<size_t>(conv.spatial) + 2);
}

}  // namespace

std::string Describe(const CudnnConv& conv) {
  constexpr absl::string_view kKinds[] = {"the convolution", "the gradient of x of the convolution",
                                          "the gradient of w of the convolution"};
  return absl::StrCat(kKinds[static_cast<size_t>(conv.kind)], " of [", absl::StrJoin(Dims(conv, conv.x), ", "),
                      "] with [", absl::StrJoin(Dims(conv, conv.w), ", "), "]",
                      conv.channels_last ? " channels-last" : "", " in ", Name(conv.dtype),
                      conv.tf32 ? " with TF32" : "");
}

#if SNUG_HAS_CUDNN

namespace {

enum ConvUid : int64_t { kX = 1, kW, kY, kBias };

cudnnDataType_t CudnnType(DType dtype) { return dtype == DType::kBFloat16 ? CUDNN_DATA_BFLOAT16 : CUDNN_DATA_FLOAT; }

// Returns the strides of a tensor that lies as all tensors of the convolution do.
CudnnDims StridesOf(const CudnnConv& conv, const CudnnDims& dims) {
  CudnnDims strides(dims.size());
  int64_t next = 1;
  if (conv.channels_last) {
    strides[1] = next;
    next *= dims[1];
  }
  for (size_t axis = dims.size() - 1; axis >= (conv.channels_last ? 2U : 1U); --axis) {
    strides[axis] = next;
    next *= dims[axis];
  }
  strides[0] = next;
  return strides;
}

CudnnDims Long(absl::Span<const int32_t> numbers) { return {numbers.begin(), numbers.end()}; }

// `finish` says that the bias, and relu if it is wanted, are part of it.
absl::StatusOr<std::shared_ptr<const CudnnGraph>> GraphOf(const CudnnTarget& target, const CudnnConv& conv,
                                                          bool finish) {
  auto graph = std::make_shared<CudnnGraph>(*target.api, Describe(conv));
  const cudnnDataType_t type = CudnnType(conv.dtype);
  const auto in_memory = [&](ConvUid uid, const CudnnDims& dims) {
    return graph->InMemory(uid, type, dims, StridesOf(conv, dims));
  };
  const auto windows = [&](const std::array<int32_t, 3>& of) {
    return Long(absl::MakeConstSpan(of).subspan(0, static_cast<size_t>(conv.spatial)));
  };
  const CudnnDims result = Long(Dims(conv, conv.y));
  const CudnnTensor x = in_memory(kX, Long(Dims(conv, conv.x)));
  const CudnnTensor w = in_memory(kW, Long(Dims(conv, conv.w)));
  const CudnnTensor y = in_memory(kY, result);
  const auto between = [&] { return graph->Virtual(CUDNN_DATA_FLOAT, result, StridesOf(conv, result)); };
  const CudnnTensor sum = finish ? between() : y;
  graph->Convolve(conv.kind,
                  {windows(conv.pad_begin), windows(conv.pad_end), windows(conv.stride), windows(conv.dilation)}, x, w,
                  sum);
  if (finish) {
    CudnnDims channels(result.size(), 1);
    channels[1] = result[1];
    const CudnnTensor bias = in_memory(kBias, channels);
    const CudnnTensor biased = conv.relu ? between() : y;
    graph->Pointwise(CUDNN_POINTWISE_ADD, CUDNN_DATA_FLOAT, biased, sum, &bias);
    if (conv.relu) graph->Pointwise(CUDNN_POINTWISE_RELU_FWD, CUDNN_DATA_FLOAT, y, biased);
  }
  SNUG_RETURN_IF_ERROR(graph->Finish(target));
  return graph;
}

}  // namespace

absl::StatusOr<std::unique_ptr<CudnnPlans>> PlansOf(const CudnnTarget& target, const CudnnConv& conv) {
  auto plans = std::make_unique<CudnnPlans>(target, Describe(conv),
                                            CudnnLicence{.varies = conv.fast,
                                                         .rounds = conv.tf32 || conv.dtype == DType::kBFloat16,
                                                         .workspace_bytes = conv.workspace_bytes,
                                                         .rank = conv.rank});
  // An engine that adds the bias is worth more than a faster one that does not.
  for (const bool finish : {true, false}) {
    if (finish && !conv.bias) continue;
    absl::StatusOr<std::shared_ptr<const CudnnGraph>> graph = GraphOf(target, conv, finish);
    if (absl::IsUnimplemented(graph.status())) {
      plans->Refuse(std::string(graph.status().message()));
      continue;
    }
    SNUG_RETURN_IF_ERROR(graph.status());
    SNUG_RETURN_IF_ERROR(plans->Add(*std::move(graph)));
  }
  return plans;
}

CudnnConvs::CudnnConvs(CudaStream& stream, cudnnContext* handle) : stream_(stream), handle_(handle) {}
CudnnConvs::~CudnnConvs() = default;

absl::Status CudnnConvs::Settle(const CudnnConv& conv) { return SettleOnce(stream_, handle_, conv, plans_).status(); }

absl::StatusOr<bool> CudnnConvs::Run(const CudnnConv& conv, const CudnnArguments& at) {
  refused_algorithm_ = nullptr;
  SNUG_ASSIGN_OR_RETURN(CudnnPlans* const plans, SettleOnce(stream_, handle_, conv, plans_));
  const bool back_to_x = conv.kind == CudnnConvKind::kGradInput;
  const bool back_to_w = conv.kind == CudnnConvKind::kGradWeight;
  SNUG_ASSIGN_OR_RETURN(const int graph, plans->Run({{kX, back_to_x ? at.result : at.data},
                                                     {kW, back_to_w ? at.result : at.factor},
                                                     {kY, back_to_x   ? at.data
                                                          : back_to_w ? at.factor
                                                                      : at.result},
                                                     {kBias, at.bias}},
                                                    at.workspace));
  refused_algorithm_ = plans->refused();
  return conv.bias && graph == 0;  // the first one adds it, if there is a bias
}

#else

// No convolution gets here, because a library that this build does not know is never there.
CudnnConvs::CudnnConvs(CudaStream& stream, cudnnContext* handle) : stream_(stream), handle_(handle) {}
CudnnConvs::~CudnnConvs() = default;
absl::Status CudnnConvs::Settle(const CudnnConv&) { return absl::UnimplementedError("this build has no cuDNN"); }
absl::StatusOr<bool> CudnnConvs::Run(const CudnnConv&, const CudnnArguments&) {
  return absl::UnimplementedError("this build has no cuDNN");
}

#endif

}  // namespace snug::core::cuda
