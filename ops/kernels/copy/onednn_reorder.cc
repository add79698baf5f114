#include "ops/kernels/copy/onednn_reorder.h"

#include "engine/base/status.h"
#include "ops/kit/onednn_internal.h"

namespace snug::core::onednn {
namespace {

dnnl::memory::dims DimsOf(const dnnl::memory::desc& desc) {
#if DNNL_VERSION_MAJOR >= 3
  return desc.get_dims();
#else
  return desc.dims();
#endif
}

}  // namespace

absl::StatusOr<KernelPtr> MakeReorder(const ValueType& from, const ValueType& to, int threads) {
  return Guard([&]() -> absl::StatusOr<KernelPtr> {
    const ThreadScope scope(threads);
    const bool unpack = from.layout.kind == Layout::Kind::kPacked;
    const bool pack = to.layout.kind == Layout::Kind::kPacked;
    SNUG_CHECK(pack || unpack);
    // A packed description has its own dimensions (groups apart); a row-major value may be seen under them too.
    const auto other = [](const dnnl::memory::desc& packed, const ValueType& type) {
      return type.layout.plain() ? DescribePlain(DimsOf(packed), type.dtype) : Describe(type);
    };
    const dnnl::memory::desc source = unpack ? Describe(from) : other(Describe(to), from);
    const dnnl::memory::desc target = pack ? Describe(to) : other(source, to);
    const dnnl::reorder::primitive_desc pd(CpuEngine(), source, CpuEngine(), target, UserScratchpad());
    return MakeKernel(pd, dnnl::reorder(pd), {{DNNL_ARG_FROM, source}, {DNNL_ARG_TO, target}}, threads);
  });
}

}  // namespace snug::core::onednn
