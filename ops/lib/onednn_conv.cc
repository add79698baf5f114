#include "ops/lib/onednn_conv.h"

#include <utility>
#include <vector>

#include "ops/lib/onednn_internal.h"

namespace snug::onednn {
namespace {

using dnnl::memory;

// What the three primitives have in common.
struct Problem {
  memory::desc x, w, bias, y;
  memory::dims stride, dilation, pad_begin, pad_end;

  explicit Problem(const ConvSpec& spec) : x(Describe(spec.x)), y(Describe(spec.y)) {
    const ops::ConvGeometry& g = spec.geometry;
    memory::dims weight_dims;
    if (g.groups > 1) {
      weight_dims = {g.groups, g.out_channels / g.groups, g.in_channels / g.groups};
    } else {
      weight_dims = {g.out_channels, g.in_channels};
    }
    for (size_t i = 0; i < static_cast<size_t>(g.spatial); ++i) {
      weight_dims.push_back(g.kernel[i]);
      stride.push_back(g.stride[i]);
      dilation.push_back(g.dilation[i] - 1);  // the library counts the gaps
      pad_begin.push_back(g.pad_begin[i]);
      pad_end.push_back(g.pad_end[i]);
    }
    w = DescribeAny(weight_dims, spec.w.dtype);
    if (spec.bias) bias = DescribePlain({g.out_channels}, spec.w.dtype);
  }
};

dnnl::primitive_attr Attributes(Activation activation) {
  dnnl::primitive_attr attributes = UserScratchpad();
  dnnl::algorithm algorithm = dnnl::algorithm::undef;
  float alpha = 0;
  float beta = 0;
  switch (activation) {
    case Activation::kNone:
      return attributes;
    case Activation::kRelu:
      algorithm = dnnl::algorithm::eltwise_relu;
      break;
    case Activation::kRelu6:
      algorithm = dnnl::algorithm::eltwise_clip;
      beta = 6;
      break;
    case Activation::kSigmoid:
      algorithm = dnnl::algorithm::eltwise_logistic;
      break;
    case Activation::kTanh:
      algorithm = dnnl::algorithm::eltwise_tanh;
      break;
  }
  dnnl::post_ops after;
#if DNNL_VERSION_MAJOR >= 3
  after.append_eltwise(algorithm, alpha, beta);
#else
  after.append_eltwise(1.0F, algorithm, alpha, beta);
#endif
  attributes.set_post_ops(after);
  return attributes;
}

constexpr auto kDirect = dnnl::algorithm::convolution_direct;

dnnl::convolution_forward::primitive_desc Forward(const Problem& p, const dnnl::primitive_attr& attributes) {
  constexpr auto kKind = dnnl::prop_kind::forward_training;
#if DNNL_VERSION_MAJOR >= 3
  return {CpuEngine(), kKind, kDirect, p.x, p.w, p.bias, p.y, p.stride, p.dilation, p.pad_begin, p.pad_end, attributes};
#else
  return {
      {kKind, kDirect, p.x, p.w, p.bias, p.y, p.stride, p.dilation, p.pad_begin, p.pad_end}, attributes, CpuEngine()};
#endif
}

// Moves on to the first implementation that is more than a loop nest written down; false: there is none.
template <class PrimitiveDesc>
bool SkipReference(PrimitiveDesc* pd) {
  while (absl::string_view(pd->impl_info_str()).substr(0, 3) == "ref") {
    if (!pd->next_impl()) return false;
  }
  return true;
}

template <class Primitive, class PrimitiveDesc>
absl::StatusOr<ConvKernel> Finish(const ConvSpec& spec, PrimitiveDesc pd, const memory::desc& weights,
                                  const std::vector<Argument>& arguments) {
  ConvKernel result;
  result.weights = LayoutOf(weights);
  if (result.weights == spec.w.layout) {
    result.kernel = MakeKernel(pd, Primitive(pd), arguments, spec.threads);
  }
  return result;
}

absl::Status OnlyReference() { return absl::UnimplementedError("oneDNN has only a reference kernel for this"); }

absl::Status TooLarge() { return absl::UnimplementedError("oneDNN has no such large dimensions"); }

}  // namespace

absl::StatusOr<ConvKernel> MakeConv(const ConvSpec& spec) {
  return Guard([&]() -> absl::StatusOr<ConvKernel> {
    if (!DimsFit(spec.geometry.batch)) return TooLarge();
    const ThreadScope scope(spec.threads);
    const Problem p(spec);
    auto pd = Forward(p, Attributes(spec.activation));
    if (!SkipReference(&pd)) return OnlyReference();
    std::vector<Argument> arguments = {{DNNL_ARG_SRC, p.x}, {DNNL_ARG_WEIGHTS, pd.weights_desc()}};
    if (spec.bias) arguments.push_back({DNNL_ARG_BIAS, p.bias});
    arguments.push_back({DNNL_ARG_DST, p.y});
    return Finish<dnnl::convolution_forward>(spec, pd, pd.weights_desc(), arguments);
  });
}

absl::StatusOr<ConvKernel> MakeConvGradInput(const ConvSpec& spec) {
  return Guard([&]() -> absl::StatusOr<ConvKernel> {
    if (!DimsFit(spec.geometry.batch)) return TooLarge();
    const ThreadScope scope(spec.threads);
    const Problem p(spec);
    const auto hint = Forward(p, UserScratchpad());
#if DNNL_VERSION_MAJOR >= 3
    dnnl::convolution_backward_data::primitive_desc pd(CpuEngine(), kDirect, p.x, p.w, p.y, p.stride, p.dilation,
                                                       p.pad_begin, p.pad_end, hint, UserScratchpad());
#else
    dnnl::convolution_backward_data::primitive_desc pd(
        {kDirect, p.x, p.w, p.y, p.stride, p.dilation, p.pad_begin, p.pad_end}, UserScratchpad(), CpuEngine(), hint);
#endif
    if (!SkipReference(&pd)) return OnlyReference();
    return Finish<dnnl::convolution_backward_data>(
        spec, pd, pd.weights_desc(),
        {{DNNL_ARG_DIFF_DST, p.y}, {DNNL_ARG_WEIGHTS, pd.weights_desc()}, {DNNL_ARG_DIFF_SRC, p.x}});
  });
}

absl::StatusOr<ConvKernel> MakeConvGradWeight(const ConvSpec& spec) {
  return Guard([&]() -> absl::StatusOr<ConvKernel> {
    if (!DimsFit(spec.geometry.batch)) return TooLarge();
    const ThreadScope scope(spec.threads);
    const Problem p(spec);
    const auto hint = Forward(p, UserScratchpad());
#if DNNL_VERSION_MAJOR >= 3
    dnnl::convolution_backward_weights::primitive_desc pd(CpuEngine(), kDirect, p.x, p.w, p.y, p.stride, p.dilation,
                                                          p.pad_begin, p.pad_end, hint, UserScratchpad());
#else
    dnnl::convolution_backward_weights::primitive_desc pd(
        {kDirect, p.x, p.w, p.y, p.stride, p.dilation, p.pad_begin, p.pad_end}, UserScratchpad(), CpuEngine(), hint);
#endif
    if (!SkipReference(&pd)) return OnlyReference();
    return Finish<dnnl::convolution_backward_weights>(
        spec, pd, pd.diff_weights_desc(),
        {{DNNL_ARG_SRC, p.x}, {DNNL_ARG_DIFF_DST, p.y}, {DNNL_ARG_DIFF_WEIGHTS, pd.diff_weights_desc()}});
  });
}

}  // namespace snug::onednn
