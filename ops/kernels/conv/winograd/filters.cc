#include "ops/kernels/conv/winograd/filters.h"

#include <absl/strings/str_cat.h>

#include <memory>

#include "engine/base/dtype.h"
#include "engine/base/parallel.h"
#include "ops/kernels/copy/own_format.h"
#include "ops/kernels/matmul/parts.h"

namespace snug::core {
namespace winograd {

template <class T>
void TransformAllFilters(int threads, const WinogradSizes& s, const WinogradFilters<T>& filters, float* panels) {
  const Tiling tiling(s);
  constexpr int64_t kChannels = kWinogradChannels;
  const int64_t parts = Parts(s.in_channels, kChannels);
  ParallelFor(threads, tiling.out_blocks * parts, 1, [&](int64_t begin, int64_t end) {
    WithIsa([&](auto isa) SNUG_LAMBDA {
      WithAxis(s.kind, [&](auto axis) SNUG_LAMBDA {
        for (int64_t unit = begin; unit < end; ++unit) {
          const int64_t block = unit / parts;
          const int64_t c = unit % parts * kChannels;
          TransformFilters<isa(), decltype(axis)>(
              s, filters, block * kOutBlock, {c, std::min(kChannels, s.in_channels - c)},
              panels + block * tiling.filter_floats() + c * GemmTile<isa(), float>::kColumns, s.in_channels,
              tiling.filter_point);
        }
      });
    });
  });
}

template void TransformAllFilters(int, const WinogradSizes&, const WinogradFilters<float>&, float*);
template void TransformAllFilters(int, const WinogradSizes&, const WinogradFilters<BFloat16>&, float*);

namespace {

const char* Name(WinogradKind kind) { return kind == WinogradKind::kInSteps ? "winograd_in_steps:" : "winograd:"; }

class WinogradFormat : public OwnFormat {
 public:
  explicit WinogradFormat(const WinogradSizes& sizes)
      : OwnFormat(absl::StrCat(Name(sizes.kind), sizes.in_channels, "x", sizes.out_channels),
                  Tiling(sizes).out_blocks * Tiling(sizes).filter_floats() * kFloat),
        sizes_(sizes) {}

  bool Equals(const PackedFormat& other) const override {
    return dynamic_cast<const WinogradFormat*>(&other) != nullptr && other.tag() == tag();
  }
  void Pack(int threads, const float* from, void* to) const override { PackAny(threads, from, to); }
  void Pack(int threads, const BFloat16* from, void* to) const override { PackAny(threads, from, to); }

 private:
  template <class T>
  void PackAny(int threads, const T* from, void* to) const {
    const WinogradFilters<T> filters = {.data = from, .out_stride = sizes_.in_channels * kTaps, .in_stride = kTaps};
    TransformAllFilters(threads, sizes_, filters, static_cast<float*>(to));
  }

  const WinogradSizes sizes_;  // its kind and channels
};

}  // namespace
}  // namespace winograd

Layout WinogradLayout(WinogradKind kind, int64_t out_channels, int64_t in_channels) {
  return Layout::Packed(std::make_shared<winograd::WinogradFormat>(
      WinogradSizes{.kind = kind, .in_channels = in_channels, .out_channels = out_channels}));
}

bool IsWinograd(const Layout& layout) {
  return dynamic_cast<const winograd::WinogradFormat*>(layout.packed.get()) != nullptr;
}

}  // namespace snug::core
