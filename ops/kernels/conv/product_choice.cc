#include "ops/kernels/conv/product_choice.h"

#include <algorithm>
#include <cstdint>
#include <optional>

#include "ops/kernels/conv/pixels.h"
#include "ops/kernels/matmul/panels.h"
#include "ops/kernels/matmul/split_gemm.h"
#include "ops/kit/isa.h"
#include "ops/own_products.h"

namespace snug::core::ops {
namespace {

// Gradients of weights are sums over so many pixels, of so few numbers, that cutting both factors into pieces takes too
// long. Sums of pieces have nothing to begin at.
bool IsSplit(const PrepareContext& c, ConvPart part, const ConvNode& node) {
  const ProductSizes s = SizesOfProduct(part, node.geometry);
  return part != ConvPart::kGradWeight && !node.adds && !node.sums && c.licence().split_products &&
         c.types().output(0).dtype == DType::kFloat32 && MachineSplitsProducts() && SplittingPays(s.m, s.n, s.k);
}

// Where weights are many, the blocked product is faster than the library's convolutions backward: these pack weights
// for themselves, or turn their gradients round, and few pixels make up for it. In gradients of weights it is so from
// fewer channels on.
bool BlocksPay(ConvPart part, const ConvGeometry& g) {
  constexpr int64_t kLeastColumns = 512, kLeastChannels = 256, kManyWeights = 1 << 19, kLeastProduct = 1 << 25;
  const ProductSizes s = SizesOfProduct(part, g);
  if (part == ConvPart::kForward || s.m * s.n * s.k < kLeastProduct) return false;
  if (part == ConvPart::kGradWeight && !IsStrided(g)) return s.n >= kLeastChannels;
  return s.n >= kLeastColumns && g.in_channels * g.out_channels >= kManyWeights;
}

// Where pixels are many, a product by panels is as fast as memory, or as the processor, and the library's convolutions
// are slower than either: but not where there are more columns than numbers in a sum, on fewer registers. Where the
// weights' panels are kept it takes no longer for any number of pixels, unless most of a panel is multiplied in vain.
// Where a convolution goes in steps, the library is slower on many registers alone, and with kept panels for as few
// pixels as one image of ResNet-50 leaves (49). This is asked beside a library only.
constexpr int64_t kManyPixels = 2048, kManyMore = 8192, kManyForSteps = 512, kLeastOfPanel = 16;
bool StepsPay() { return CurrentIsa() == Isa::kAvx512; }
[[maybe_unused]] bool PanelsPay(const PrepareContext& c, ConvPart part, const ConvNode& node) {
  if (part == ConvPart::kGradWeight) return false;
  const ProductSizes s = SizesOfProduct(part, node.geometry);
  const bool kept = c.kept(1) || IsPanels(c.types().input(1).layout);
  if (IsStrided(node.geometry)) {
    return part == ConvPart::kForward && StepsPay() && (kept || s.m >= kManyForSteps);
  }
  if (part == ConvPart::kForward && kept && s.n >= kLeastOfPanel) return true;
  return s.n <= s.k ? s.m >= kManyPixels : s.m >= kManyMore && CurrentIsa() == Isa::kAvx512;
}

}  // namespace

ProductSizes SizesOfProduct(ConvPart part, const ConvGeometry& g) {
  const int64_t pixels = g.batch * g.out[0] * g.out[1] * g.out[2];
  switch (part) {
    case ConvPart::kForward:
      return {pixels, g.out_channels, g.in_channels};
    case ConvPart::kGradInput:
      return {pixels, g.in_channels, g.out_channels};
    case ConvPart::kGradWeight:
      break;
  }
  return {g.out_channels, g.in_channels, pixels};
}

WhyNot WhyNotInFloat(const NodeTypes& types) {
  const DType dtype = types.output(0).dtype;
  if (dtype != DType::kBFloat16 || OwnLoopsMultiply(dtype)) return std::nullopt;
  return ByDesign("it multiplies in float, and this processor has faster products of bfloat16");
}

WhyNot WhyNotProduct(ConvPart part, const NodeTypes& types, const ConvNode& node) {
  const ConvGeometry& g = node.geometry;
  if (WhyNot reason = WhyNotInFloat(types)) return reason;
  if (WhyNot reason = WhyNotByPixels(part, types, g)) return reason;
  if (!IsProductOfPixels(g)) return ByDesign("it is for 1 x 1 taps without padding");
  if (node.sums && IsStrided(g)) return ByDesign("it sums where all pixels have gradients");
  return std::nullopt;
}

ProductWay WayOf(const PrepareContext& c, ConvPart part, const ConvNode& node) {
  if (IsSplit(c, part, node)) return ProductWay::kSplit;
  if (part == ConvPart::kGradWeight) return ProductWay::kBlocks;
  if (node.sums) return ProductWay::kPanels;
  return c.types().output(0).dtype == DType::kFloat32 && BlocksPay(part, node.geometry) ? ProductWay::kBlocks
                                                                                        : ProductWay::kPanels;
}

bool ProductLeftToLibrary([[maybe_unused]] const PrepareContext& c, [[maybe_unused]] ConvPart part,
                          [[maybe_unused]] const ConvNode& node) {
#if SNUG_HAS_ONEDNN
  if (node.adds || node.measures || node.sums) return false;  // no library's row does
  if (c.types().output(0).dtype != DType::kFloat32) return part != ConvPart::kForward && IsStrided(node.geometry);
  return !BlocksPay(part, node.geometry) && !PanelsPay(c, part, node) && !IsSplit(c, part, node);
#else
  return false;
#endif
}

// The library's convolutions compute several pixels of a line at a time, so they are slower where lines are short, and
// in steps, where they load what they use once; in steps of few channels they are not on many registers.
bool TapsPay([[maybe_unused]] const ConvGeometry& g) {
#if SNUG_HAS_ONEDNN
  constexpr int64_t kLeastChannels = 64, kFewPixels = 8 * 8;
  if (g.spatial != 2 || std::min(g.in_channels, g.out_channels) < kLeastChannels) return false;
  if (g.out[0] * g.out[1] <= kFewPixels) return true;
  return IsStrided(g) && g.in_channels >= (CurrentIsa() == Isa::kAvx512 ? 256 : 128);
#else
  return true;
#endif
}

bool MeasuringProductPays(const ConvGeometry& g) {
  if (!IsProductOfPixels(g) || (IsStrided(g) && !StepsPay())) return false;
  const ProductSizes s = SizesOfProduct(ConvPart::kForward, g);
  return s.n <= s.k ? s.m >= kManyPixels : s.m >= kManyMore && CurrentIsa() != Isa::kBaseline;
}

bool SummingProductPays(const ConvGeometry& g) {
  if (!IsProductOfPixels(g) || IsStrided(g) || BlocksPay(ConvPart::kGradInput, g)) return false;
  const ProductSizes s = SizesOfProduct(ConvPart::kGradInput, g);
  // What the sweep takes pays for more columns than steps, too, from fewer pixels on where there are many registers.
  const bool pays = CurrentIsa() == Isa::kAvx512 || (CurrentIsa() == Isa::kAvx2 && s.m >= kManyMore);
  return s.m >= kManyPixels && (s.n <= s.k || pays);
}

}  // namespace snug::core::ops
