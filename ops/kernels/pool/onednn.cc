#include "ops/kernels/pool/onednn.h"

#include "engine/base/status.h"
#include "ops/kit/onednn_internal.h"

namespace snug::core::onednn {
namespace {

using dnnl::memory;
using PoolDesc = dnnl::pooling_forward::primitive_desc;

struct PoolProblem {
  memory::desc x, y;
  memory::dims stride, kernel, pad_begin, pad_end;
  dnnl::algorithm algorithm;

  explicit PoolProblem(const AveragePoolSpec& spec)
      : x(Describe(spec.x)),
        y(Describe(spec.y)),
        algorithm(spec.include_padding ? dnnl::algorithm::pooling_avg_include_padding
                                       : dnnl::algorithm::pooling_avg_exclude_padding) {
    const size_t spatial = static_cast<size_t>(spec.x.shape.rank()) - 2;
    for (size_t i = 3 - spatial; i < 3; ++i) {
      const PoolAxis& axis = spec.geometry.axes[i];
      stride.push_back(axis.stride);
      kernel.push_back(axis.window);
      pad_begin.push_back(axis.pad_begin);
      // Padding behind the last window is left out.
      pad_end.push_back((axis.out - 1) * axis.stride + axis.window - axis.in - axis.pad_begin);
    }
  }
};

// Says whether windows end within the padding. The library would count what lies behind it.
bool Suits(const AveragePoolSpec& spec) {
  if (!DimsFit(spec.x.shape[0])) return false;
  for (const PoolAxis& axis : spec.geometry.axes) {
    const int64_t end = (axis.out - 1) * axis.stride + axis.window - axis.pad_begin;
    if (axis.adaptive || axis.dilation != 1 || end > axis.in + axis.pad_end || end < axis.in) return false;
  }
  return true;
}

absl::Status Unsuited() { return absl::UnimplementedError("oneDNN has nothing for such windows"); }

PoolDesc DescribePool(const PoolProblem& p) {
  constexpr auto kKind = dnnl::prop_kind::forward_training;
#if DNNL_VERSION_MAJOR >= 3
  const memory::dims dilation(p.stride.size(), 0);
  return {CpuEngine(), kKind,     p.algorithm,     p.x, p.y, p.stride, p.kernel, dilation,
          p.pad_begin, p.pad_end, UserScratchpad()};
#else
  return {{kKind, p.algorithm, p.x, p.y, p.stride, p.kernel, p.pad_begin, p.pad_end}, UserScratchpad(), CpuEngine()};
#endif
}

template <class PrimitiveDesc>
absl::Status SkipReference(PrimitiveDesc* pd) {
  while (IsReference(pd->impl_info_str())) {
    if (!pd->next_impl()) return absl::UnimplementedError("oneDNN has only a reference kernel for this");
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<KernelPtr> MakeAveragePool(const AveragePoolSpec& spec) {
  return Guard([&]() -> absl::StatusOr<KernelPtr> {
    if (!Suits(spec)) return Unsuited();
    const ThreadScope scope(spec.threads);
    const PoolProblem p(spec);
    PoolDesc pd = DescribePool(p);
    SNUG_RETURN_IF_ERROR(SkipReference(&pd));
    return MakeKernel(pd, dnnl::pooling_forward(pd), {{DNNL_ARG_SRC, p.x}, {DNNL_ARG_DST, p.y}}, spec.threads);
  });
}

absl::StatusOr<KernelPtr> MakeAveragePoolGrad(const AveragePoolSpec& spec) {
  return Guard([&]() -> absl::StatusOr<KernelPtr> {
    if (!Suits(spec)) return Unsuited();
    const ThreadScope scope(spec.threads);
    const PoolProblem p(spec);
    const PoolDesc hint = DescribePool(p);
#if DNNL_VERSION_MAJOR >= 3
    const memory::dims dilation(p.stride.size(), 0);
    dnnl::pooling_backward::primitive_desc pd(CpuEngine(), p.algorithm, p.x, p.y, p.stride, p.kernel, dilation,
                                              p.pad_begin, p.pad_end, hint, UserScratchpad());
#else
    dnnl::pooling_backward::primitive_desc pd({p.algorithm, p.x, p.y, p.stride, p.kernel, p.pad_begin, p.pad_end},
                                              UserScratchpad(), CpuEngine(), hint);
#endif
    SNUG_RETURN_IF_ERROR(SkipReference(&pd));
    return MakeKernel(pd, dnnl::pooling_backward(pd), {{DNNL_ARG_DIFF_DST, p.y}, {DNNL_ARG_DIFF_SRC, p.x}},
                      spec.threads);
  });
}

}  // namespace snug::core::onednn
