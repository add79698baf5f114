#include "ops/kernels/conv/winograd/filters.h"

#include <absl/strings/str_cat.h>

#include <algorithm>
#include <memory>

#include "engine/base/dtype.h"
#include "engine/base/parallel.h"
#include "ops/kernels/conv/winograd/axes.h"
#include "ops/kernels/conv/winograd/products.h"
#include "ops/kernels/copy/own_format.h"
#include "ops/kernels/copy/transpose.h"
#include "ops/kernels/matmul/gemm_tile.h"
#include "ops/kernels/matmul/parts.h"
#include "ops/kit/float_vectors.h"
#include "ops/kit/isa.h"

namespace snug::core {
namespace winograd {
namespace {

// Reads the taps of a vector of output channels from `out` on and of `count` input channels from `c` on, at most as
// many: taps[input channel][tap][output channel].
template <Isa kIsa, int64_t kTaps, class T>
SNUG_INLINE void ReadTaps(const WinogradFilters<T>& filters, int64_t out, int64_t c, int64_t count, float* taps) {
  constexpr int64_t kLanes = kLanesOf<kIsa>;
  const T* from = filters.data + out * filters.out_stride + c * filters.in_stride;
  if (filters.in_stride == kTaps)
    return TransposeRows<kLanes, kLanes>(count * kTaps, from, filters.out_stride, taps, kLanes);
  constexpr int64_t kSide = std::min<int64_t>(kLanes, 8);  // a filter has more taps than that
  for (int64_t i = 0; i < count; ++i) {
    for (int64_t l = 0; l < kLanes; l += kSide) {
      TransposeRows<kSide, kSide>(kTaps, from + i * filters.in_stride + l * filters.out_stride, filters.out_stride,
                                  taps + i * kTaps * kLanes + l, kLanes);
    }
  }
}

// Does what TransformFilters does.
template <Isa kIsa, class Axis, class T>
SNUG_INLINE void TransformFiltersAlong(const WinogradSizes& s, const WinogradFilters<T>& filters, int64_t out,
                                       const Channels& channels, float* panels, int64_t rows, int64_t product_stride) {
  using Vector = VectorOf<kIsa>;
  constexpr int64_t kLanes = kLanesOf<kIsa>;
  constexpr int64_t kColumns = GemmTile<kIsa, float>::kColumns;
  constexpr int64_t kProducts = Axis::kProducts, kLine = Axis::kTaps, kTaps = kLine * kLine;
  static_assert(kWinogradChannels % kLanes == 0, "a vector's output channels are all there, or none is");
  for (int64_t o = 0; o < OutBlockOf(s.kind); o += kLanes) {
    float* panel = panels + o / kColumns * kColumns * rows + o % kColumns;
    for (int64_t first = 0; first < channels.count; first += kLanes) {
      const int64_t count = std::min(kLanes, channels.count - first);
      alignas(Vector) float taps[kLanes * kTaps * kLanes];
      if (out + o < s.out_channels) {
        ReadTaps<kIsa, kTaps>(filters, out + o, channels.first + first, count, taps);
      } else {
        std::fill_n(taps, count * kTaps * kLanes, 0.0F);
      }
      for (int64_t c = 0; c < count; ++c) {
        Vector lines[kTaps], across[kLine * kProducts];
#pragma GCC unroll 25
        for (int64_t t = 0; t < kTaps; ++t) {
          LoadFloats(taps + (c * kTaps + (filters.reversed ? kTaps - 1 - t : t)) * kLanes, lines[t]);
        }
#pragma GCC unroll 9
        for (int64_t i = 0; i < kLine; ++i) Axis::Filter(lines + i * kLine, across + i * kProducts);
#pragma GCC unroll 9
        for (int64_t j = 0; j < kProducts; ++j) {
          Vector column[kLine], down[kProducts];
#pragma GCC unroll 9
          for (int64_t i = 0; i < kLine; ++i) column[i] = across[i * kProducts + j];
          Axis::Filter(column, down);
#pragma GCC unroll 9
          for (int64_t i = 0; i < kProducts; ++i) {
            StoreFloats(down[i], panel + (i * kProducts + j) * product_stride + (first + c) * kColumns);
          }
        }
      }
    }
  }
}

}  // namespace

template <class T>
void TransformFilters(const WinogradSizes& s, const WinogradFilters<T>& filters, int64_t out, const Channels& channels,
                      float* panels, int64_t rows, int64_t product_stride) {
  WithIsa([&](auto isa) SNUG_LAMBDA {
    WithFilterAxis(s.kind, [&](auto axis) SNUG_LAMBDA {
      TransformFiltersAlong<isa(), decltype(axis)>(s, filters, out, channels, panels, rows, product_stride);
    });
  });
}

template <class T>
void TransformAllFilters(int threads, const WinogradSizes& s, const WinogradFilters<T>& filters, float* panels) {
  const Tiling tiling(s);
  constexpr int64_t kChannels = kWinogradChannels;
  const int64_t parts = Parts(s.in_channels, kChannels);
  ParallelFor(threads, tiling.out_blocks * parts, 1, [&](int64_t begin, int64_t end) {
    for (int64_t unit = begin; unit < end; ++unit) {
      const int64_t block = unit / parts, c = unit % parts * kChannels;
      TransformFilters(s, filters, block * tiling.out_block, {c, std::min(kChannels, s.in_channels - c)},
                       panels + block * tiling.filter_floats() + c * PanelColumns(), s.in_channels,
                       tiling.filter_point);
    }
  });
}

template void TransformFilters(const WinogradSizes&, const WinogradFilters<float>&, int64_t, const Channels&, float*,
                               int64_t, int64_t);
template void TransformFilters(const WinogradSizes&, const WinogradFilters<BFloat16>&, int64_t, const Channels&, float*,
                               int64_t, int64_t);
template void TransformAllFilters(int, const WinogradSizes&, const WinogradFilters<float>&, float*);
template void TransformAllFilters(int, const WinogradSizes&, const WinogradFilters<BFloat16>&, float*);

namespace {

const char* Name(WinogradKind kind) {
  switch (kind) {
    case WinogradKind::kInSteps:
    case WinogradKind::kBetweenSteps:
      return "winograd_in_steps:";
    case WinogradKind::kFourTaps:
      return "winograd_of_4_taps:";
    case WinogradKind::kFiveTaps:
      return "winograd_of_5_taps:";
    case WinogradKind::kPlain:
      break;
  }
  return "winograd:";
}

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
    const int64_t taps = WinogradTaps(sizes_.kind);
    const WinogradFilters<T> filters = {.data = from, .out_stride = sizes_.in_channels * taps, .in_stride = taps};
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
