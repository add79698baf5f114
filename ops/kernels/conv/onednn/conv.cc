#include "ops/kernels/conv/onednn/conv.h"

#include <absl/algorithm/container.h>
#include <absl/strings/match.h>
#include <absl/strings/strip.h>

#include <utility>
#include <vector>

#include "engine/base/status.h"
#include "ops/kernels/activation/onednn_activated.h"
#include "ops/kit/onednn_internal.h"

namespace snug::core::onednn {
namespace {

using dnnl::memory;

// What the three primitives have in common.
struct ConvProblem {
  memory::desc x, w, bias, y;
  memory::dims stride, dilation, pad_begin, pad_end;

  explicit ConvProblem(const ConvSpec& spec) : x(Describe(spec.x)), y(Describe(spec.y)) {
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
      dilation.push_back(g.dilation[i] - 1);  // the library counts the gaps between taps
      pad_begin.push_back(g.pad_begin[i]);
      pad_end.push_back(g.pad_end[i]);
    }
    w = DescribeAny(weight_dims, spec.w.dtype);
    if (spec.bias) bias = DescribePlain({g.out_channels}, spec.w.dtype);
  }
};

using Algorithm = dnnl::algorithm;
using ConvDesc = dnnl::convolution_forward::primitive_desc;

// The description of a primitive, which lists the library's implementations. A gradient's list refers to the forward
// description that it was made with, so that one has to live as long.
template <class PrimitiveDesc>
struct Described {
  PrimitiveDesc pd;
  ConvDesc hint;
};

ConvDesc DescribeForward(const ConvProblem& p, Algorithm algorithm, const dnnl::primitive_attr& attributes) {
  constexpr auto kKind = dnnl::prop_kind::forward_training;
#if DNNL_VERSION_MAJOR >= 3
  return {CpuEngine(), kKind,    algorithm,  p.x,         p.w,       p.bias,
          p.y,         p.stride, p.dilation, p.pad_begin, p.pad_end, attributes};
#else
  return {
      {kKind, algorithm, p.x, p.w, p.bias, p.y, p.stride, p.dilation, p.pad_begin, p.pad_end}, attributes, CpuEngine()};
#endif
}

template <class PrimitiveDesc>
Described<PrimitiveDesc> DescribeGradient(const ConvProblem& p, Algorithm algorithm) {
  const ConvDesc hint = DescribeForward(p, algorithm, UserScratchpad());
#if DNNL_VERSION_MAJOR >= 3
  return {PrimitiveDesc(CpuEngine(), algorithm, p.x, p.w, p.y, p.stride, p.dilation, p.pad_begin, p.pad_end, hint,
                        UserScratchpad()),
          hint};
#else
  return {PrimitiveDesc({algorithm, p.x, p.w, p.y, p.stride, p.dilation, p.pad_begin, p.pad_end}, UserScratchpad(),
                        CpuEngine(), hint),
          hint};
#endif
}
constexpr auto* kGradInput = DescribeGradient<dnnl::convolution_backward_data::primitive_desc>;
constexpr auto* kGradWeight = DescribeGradient<dnnl::convolution_backward_weights::primitive_desc>;

constexpr absl::string_view kWinograd = "winograd ";

// Selects the implementation that was asked for, or else the first that is more than a plain loop nest.
template <class Make>
auto Select(const std::string& implementation, const Make& make) -> absl::StatusOr<decltype(make(Algorithm{}))> {
  absl::string_view name = implementation;
  const bool winograd = absl::ConsumePrefix(&name, kWinograd);
  auto described = make(winograd ? Algorithm::convolution_winograd : Algorithm::convolution_direct);
  auto& pd = described.pd;
  do {
    if (name.empty() ? !IsReference(pd.impl_info_str()) : name == pd.impl_info_str()) return described;
  } while (pd.next_impl());
  return absl::UnimplementedError(name.empty() ? "oneDNN has only a reference kernel for this"
                                               : absl::StrCat("oneDNN has no \"", implementation, "\" for this"));
}

// Says whether a tuning may choose this implementation. Those on top of "gemm" take memory of their own at every call.
// The general batch-reduced kernel of 2.6 computes nonsense for 1 x 1 windows and for windows as large as the image,
// and for bfloat16 it writes over its own description.
bool IsChoice(absl::string_view name) {
  return !absl::StrContains(name, "gemm") && !absl::StrContains(name, "brgconv:");
}

template <class Make>
absl::StatusOr<std::vector<std::string>> Implementations(const ConvSpec& spec, const Make& make) {
  std::vector<std::string> names;
  std::string taken;  // the one that is taken without being asked for
  // The library may have nothing for this algorithm.
  const auto add = [&](Algorithm algorithm, absl::string_view prefix) {
    const absl::Status listed = Guard([&]() -> absl::Status {
      const ThreadScope scope(spec.threads);
      const ConvProblem p(spec);
      auto described = make(p, algorithm);
      do {
        const std::string name = absl::StrCat(prefix, described.pd.impl_info_str());
        if (IsReference(described.pd.impl_info_str()) || name == taken || absl::c_linear_search(names, name)) continue;
        if (taken.empty()) {
          taken = name;
        } else if (IsChoice(name)) {
          names.push_back(name);
        }
      } while (described.pd.next_impl());
      return absl::OkStatus();
    });
    return absl::IsUnimplemented(listed) ? absl::OkStatus() : listed;
  };
  if (!DimsFit(spec.geometry.batch)) return names;
  SNUG_RETURN_IF_ERROR(add(Algorithm::convolution_direct, ""));
  if (!taken.empty()) SNUG_RETURN_IF_ERROR(add(Algorithm::convolution_winograd, kWinograd));
  return names;
}

template <class Primitive, class PrimitiveDesc>
ConvKernel Finish(const ConvSpec& spec, PrimitiveDesc pd, const memory::desc& weights,
                  const std::vector<Argument>& arguments) {
  ConvKernel result;
  result.weights = LayoutOf(weights);
  if (result.weights == spec.w.layout) {
    result.kernel = MakeKernel(pd, Primitive(pd), arguments, spec.threads);
  }
  return result;
}

absl::Status CheckCanServe(const ConvSpec& spec) {
  SNUG_RETURN_IF_ERROR(CheckSupports(spec.y.dtype));
  if (DimsFit(spec.geometry.batch)) return absl::OkStatus();
  return absl::UnimplementedError("oneDNN has no such large dimensions");
}

}  // namespace

absl::StatusOr<ConvKernel> MakeConv(const ConvSpec& spec) {
  return Guard([&]() -> absl::StatusOr<ConvKernel> {
    SNUG_RETURN_IF_ERROR(CheckCanServe(spec));
    const ThreadScope scope(spec.threads);
    const ConvProblem p(spec);
    SNUG_ASSIGN_OR_RETURN(const auto described, Select(spec.implementation, [&](Algorithm algorithm) {
                            return Described<ConvDesc>{DescribeForward(p, algorithm, UserScratchpad()), {}};
                          }));
    std::vector<Argument> arguments = {{DNNL_ARG_SRC, p.x}, {DNNL_ARG_WEIGHTS, described.pd.weights_desc()}};
    if (spec.bias) arguments.push_back({DNNL_ARG_BIAS, p.bias});
    arguments.push_back({DNNL_ARG_DST, p.y});
    ConvKernel conv = Finish<dnnl::convolution_forward>(spec, described.pd, described.pd.weights_desc(), arguments);
    conv.kernel = Activated(std::move(conv.kernel), spec.activation, spec.y.dtype, spec.y.num_elements(), spec.threads);
    return conv;
  });
}

absl::StatusOr<ConvKernel> MakeConvGradInput(const ConvSpec& spec) {
  return Guard([&]() -> absl::StatusOr<ConvKernel> {
    SNUG_RETURN_IF_ERROR(CheckCanServe(spec));
    const ThreadScope scope(spec.threads);
    const ConvProblem p(spec);
    SNUG_ASSIGN_OR_RETURN(const auto described,
                          Select(spec.implementation, [&](Algorithm algorithm) { return kGradInput(p, algorithm); }));
    return Finish<dnnl::convolution_backward_data>(
        spec, described.pd, described.pd.weights_desc(),
        {{DNNL_ARG_DIFF_DST, p.y}, {DNNL_ARG_WEIGHTS, described.pd.weights_desc()}, {DNNL_ARG_DIFF_SRC, p.x}});
  });
}

absl::StatusOr<ConvKernel> MakeConvGradWeight(const ConvSpec& spec) {
  return Guard([&]() -> absl::StatusOr<ConvKernel> {
    SNUG_RETURN_IF_ERROR(CheckCanServe(spec));
    const ThreadScope scope(spec.threads);
    const ConvProblem p(spec);
    SNUG_ASSIGN_OR_RETURN(const auto described,
                          Select(spec.implementation, [&](Algorithm algorithm) { return kGradWeight(p, algorithm); }));
    return Finish<dnnl::convolution_backward_weights>(
        spec, described.pd, described.pd.diff_weights_desc(),
        {{DNNL_ARG_SRC, p.x}, {DNNL_ARG_DIFF_DST, p.y}, {DNNL_ARG_DIFF_WEIGHTS, described.pd.diff_weights_desc()}});
  });
}

absl::StatusOr<std::vector<std::string>> ConvImplementations(const ConvSpec& spec) {
  return Implementations(spec, [&](const ConvProblem& p, Algorithm algorithm) {
    return Described<ConvDesc>{DescribeForward(p, algorithm, UserScratchpad()), {}};
  });
}

absl::StatusOr<std::vector<std::string>> ConvGradInputImplementations(const ConvSpec& spec) {
  return Implementations(spec, kGradInput);
}

absl::StatusOr<std::vector<std::string>> ConvGradWeightImplementations(const ConvSpec& spec) {
  return Implementations(spec, kGradWeight);
}

}  // namespace snug::core::onednn
