#include "ops/kernels/conv/products.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "ops/kernel_context.h"
#include "ops/kernels/conv/own_row.h"
#include "ops/kernels/conv/pixels.h"
#include "ops/kernels/matmul/blocked.h"
#include "ops/kernels/matmul/panels.h"
#include "ops/kernels/matmul/parts.h"
#include "ops/kernels/matmul/split_gemm.h"
#include "ops/kernels/matmul/tall.h"
#include "ops/kit/isa.h"
#include "ops/prepare_context.h"
#if SNUG_HAS_ONEDNN
#include "ops/kit/onednn.h"
#endif

namespace snug::core::ops {
namespace {

WhyNot WhyNotInFloat([[maybe_unused]] const NodeTypes& types) {
#if SNUG_HAS_ONEDNN
  if (types.output(0).dtype == DType::kBFloat16 && onednn::MultipliesBFloat16()) {
    return ByDesign("it multiplies in float, and this processor has faster products of bfloat16");
  }
#endif
  return std::nullopt;
}

// ---- one product ----

WhyNot WhyNotProduct(ConvPart part, const NodeTypes& types, const ConvNode& node) {
  const ConvGeometry& g = node.geometry;
  if (WhyNot reason = WhyNotInFloat(types)) return reason;
  if (WhyNot reason = WhyNotByPixels(part, types, g)) return reason;
  if (!IsProductOfPixels(g)) return ByDesign("it is for 1 x 1 taps without padding");
  if (node.sums && IsStrided(g)) return ByDesign("it sums where all pixels have gradients");
  return std::nullopt;
}

struct ProductSizes {
  int64_t m, n, k;
};

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

// The weights are packed as a whole, and the pixels are read as they are. In the gradient of the weights both factors
// are pixels.
PanelsShape PanelsOfWeights(ConvPart part, const ConvGeometry& g) {
  const ProductSizes sizes = SizesOfProduct(part, g);
  return {.n = sizes.n, .k = sizes.k, .transposed = part == ConvPart::kForward};
}

// How a product is computed.
enum class ProductWay : uint8_t { kPanels, kBlocks, kSplit };

struct PreparedProduct {
  ProductWay way = ProductWay::kPanels;
};

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
// weights' panels are kept it takes fewer pixels. Where a convolution goes in steps, the library is slower on many
// registers alone, and with kept panels for as few pixels as one image of ResNet-50 leaves (49). This is asked beside a
// library only.
constexpr int64_t kManyPixels = 2048, kManyMore = 8192, kManyForKept = 512, kManyForSteps = 512;
bool StepsPay() { return CurrentIsa() == Isa::kAvx512; }
[[maybe_unused]] bool PanelsPay(const PrepareContext& c, ConvPart part, const ConvNode& node) {
  if (part == ConvPart::kGradWeight) return false;
  const ProductSizes s = SizesOfProduct(part, node.geometry);
  const bool kept = c.kept(1) || IsPanels(c.types().input(1).layout);
  if (IsStrided(node.geometry)) {
    return part == ConvPart::kForward && StepsPay() && (kept || s.m >= kManyForSteps);
  }
  if (part == ConvPart::kForward && kept && s.m >= kManyForKept) return true;
  return s.n <= s.k ? s.m >= kManyPixels : s.m >= kManyMore && CurrentIsa() == Isa::kAvx512;
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

ProductWay WayOf(const PrepareContext& c, ConvPart part, const ConvNode& node) {
  if (IsSplit(c, part, node)) return ProductWay::kSplit;
  if (part == ConvPart::kGradWeight) return ProductWay::kBlocks;
  if (node.sums) return ProductWay::kPanels;
  return c.types().output(0).dtype == DType::kFloat32 && BlocksPay(part, node.geometry) ? ProductWay::kBlocks
                                                                                        : ProductWay::kPanels;
}

// Forward, panels are multiplied by pixels where they are.
bool TakesPixels(ConvPart part, ProductWay way, const ConvGeometry& g) {
  return IsStrided(g) && !(part == ConvPart::kForward && way == ProductWay::kPanels);
}
int64_t TakenPixelsBytes(ConvPart part, ProductWay way, const ConvGeometry& g, DType dtype) {
  if (!TakesPixels(part, way, g)) return 0;
  return WholeLines(g.batch * g.out[0] * g.out[1] * g.out[2] * g.in_channels * SizeOf(dtype));
}

// What parts of the result leave in the workspace's first lines, for the statistics or sums that a node takes.
int64_t PartsBytesOfProduct(ConvPart part, const ConvNode& node, DType dtype) {
  const ProductSizes s = SizesOfProduct(part, node.geometry);
  return WithFloatOf(dtype, [&](auto zero) {
    using T = decltype(zero);
    if (node.sums) return WholeLines(PanelsNormBytes<T>(s.m, s.n, s.k));
    return MomentsBytes(node, std::max(PanelsMomentsBytes<T>(s.m, s.n, s.k), MeasureColumnsBytes(s.m, s.n)));
  });
}

absl::Status PrepareProduct(PrepareContext& c, ConvPart part, const ConvNode& node) {
  if (LeftToAnother(c, "product")) return absl::OkStatus();
  if (c.choice().empty() && ProductLeftToLibrary(c, part, node)) {
    c.Decline(ByDesign("the library does as well"));
    return absl::OkStatus();
  }
  const ConvGeometry& g = node.geometry;
  const ProductSizes s = SizesOfProduct(part, g);
  const DType dtype = c.types().output(0).dtype;
  const ProductWay way = WayOf(c, part, node);
  const int64_t parts = PartsBytesOfProduct(part, node, dtype), taken = TakenPixelsBytes(part, way, g, dtype);
  c.SetKernel(std::make_shared<const PreparedProduct>(PreparedProduct{way}));
  switch (way) {
    case ProductWay::kSplit:
      c.SetVariant("split");  // what says whether --split-products changes anything
      c.SetWorkspaceBytes(parts + taken + SplitGemmWorkspaceBytes(c.threads(), s.m, s.n, s.k));
      return absl::OkStatus();
    case ProductWay::kBlocks:
      c.SetWorkspaceBytes(taken + WithFloatOf(dtype, [&](auto zero) {
                            return BlockedGemmWorkspaceBytes<decltype(zero)>(c.threads(), s.m, s.n, s.k);
                          }));
      return absl::OkStatus();
    case ProductWay::kPanels:
      break;
  }
  const PanelsShape shape = PanelsOfWeights(part, g);
  const bool packed = IsPanels(c.types().input(1).layout);
  if (!packed && c.kept(1)) {
    c.WantInputLayout(1, PanelsLayout(shape));
  } else if (const int64_t bytes = parts + taken + (packed ? 0 : PanelsBytes(shape)); bytes > 0) {
    c.SetWorkspaceBytes(bytes);
  }
  return absl::OkStatus();
}

// Two of x, dy and w are multiplied, and the third, or its gradient, is the result. Where a convolution goes in steps,
// x and its gradient have no pixels but those that it takes.
template <class T>
struct ProductCall {
  const T* x = nullptr;                           // forward and in the gradient of the weights
  const ScatteredRows<T>* scattered_x = nullptr;  // in place of x
  const T* dy = nullptr;
  const T* w = nullptr;
  T* result = nullptr;
  void* workspace = nullptr;
};

template <class T>
NormGradient<T> NormOf(const KernelContext& k, const ConvNode& node) {
  if (!node.sums) return {};
  const auto or_null = [&](int i) { return k.has_input(i) ? k.input<float>(i) : nullptr; };
  return {.x = k.input<T>(kSumsX),
          .y = k.has_input(kSumsY) ? k.input<T>(kSumsY) : nullptr,
          .mean = k.input<float>(kSumsMean),
          .var = k.input<float>(kSumsVar),
          .weight = or_null(kSumsWeight),
          .bias = or_null(kSumsBias),
          .epsilon = node.epsilon,
          .activation = node.activation,
          .dweight = k.output<float>(1),
          .dbias = k.output<float>(2),
          .workspace = k.workspace<float>()};
}

// y [pixels, out] = x [pixels, in] times w [out, in], transposed, or dx [pixels, in] = dy [pixels, out] times w.
template <class T>
void MultiplyByWeights(ConvPart part, const KernelContext& k, const ConvNode& node, const ProductCall<T>& p) {
  const ProductSizes sizes = SizesOfProduct(part, node.geometry);
  PanelsCall<T> call = {.m = sizes.m,
                        .n = sizes.n,
                        .k = sizes.k,
                        .a = part == ConvPart::kForward ? p.x : p.dy,
                        .scattered_a = p.scattered_x,
                        .activation = part == ConvPart::kForward ? node.activation : Activation::kIdentity,
                        .c = p.result,
                        .moments = MomentsOf(k, node),
                        .norm = NormOf<T>(k, node)};
  if (part == ConvPart::kForward && k.has_input(2)) call.bias = k.input<T>(2);
  if (node.adds) call.addend = k.input<T>(3);
  if (node.sums && k.has_input(kSumsDy2)) call.addend = k.input<T>(kSumsDy2);
  if (IsPanels(k.input_type(1).layout)) {
    call.panels = k.input<float>(1);
  } else {
    float* const panels = static_cast<float*>(p.workspace);
    PackIntoPanels(k.threads(), PanelsOfWeights(part, node.geometry), p.w, panels);
    call.panels = panels;
  }
  MultiplyByPanels(k.threads(), call);
}

// What is multiplied, in any of the three. dw [out, in] = dy [pixels, out], transposed, times x [pixels, in].
template <class T>
GemmCall<T> WholeProduct(ConvPart part, const KernelContext& k, const ConvNode& node, const ProductCall<T>& p) {
  const ProductSizes s = SizesOfProduct(part, node.geometry);
  GemmCall<T> call = {.m = s.m, .n = s.n, .k = s.k, .c = p.result};
  switch (part) {
    case ConvPart::kForward:
      call.a = {p.x, s.k, 1};
      call.b = {p.w, 1, s.k};
      call.bias = k.has_input(2) ? k.input<T>(2) : nullptr;
      break;
    case ConvPart::kGradInput:
      call.a = {p.dy, s.k, 1};
      call.b = {p.w, s.n, 1};
      break;
    case ConvPart::kGradWeight:
      call.a = {p.dy, 1, s.m};
      call.b = {p.x, s.n, 1};
      break;
  }
  return call;
}

template <class T>
void Multiply(ConvPart part, const KernelContext& k, const ConvNode& node, const ProductCall<T>& p) {
  switch (k.prepared<PreparedProduct>().way) {
    case ProductWay::kPanels:
      return MultiplyByWeights<T>(part, k, node, p);
    case ProductWay::kBlocks:
      return BlockedGemm(k.threads(), WholeProduct(part, k, node, p), node.activation, p.workspace);
    case ProductWay::kSplit:
      if constexpr (std::is_same_v<T, float>) {
        const GemmCall<float> call = WholeProduct(part, k, node, p);
        SplitGemm(k.threads(), call, node.activation, p.workspace);
        // In a sweep of its own, which takes less than pieces save.
        if (node.measures) MeasureColumns(k.threads(), call.m, call.n, p.result, MomentsOf(k, node));
      }
  }
}

absl::Status RunProduct(ConvPart part, const KernelContext& k, const ConvNode& node) {
  const ConvGeometry& g = node.geometry;
  WithFloatOf(k.output_type(0).dtype, [&](auto zero) {
    using T = decltype(zero);
    char* const workspace = k.workspace<char>() + PartsBytesOfProduct(part, node, k.output_type(0).dtype);
    ProductCall<T> call = {.result = k.output<T>(0), .workspace = workspace};
    if (part != ConvPart::kGradInput) call.x = k.input<T>(0);
    if (part != ConvPart::kForward) call.dy = k.input<T>(part == ConvPart::kGradInput ? 0 : 1);
    if (part != ConvPart::kGradWeight && !IsPanels(k.input_type(1).layout)) call.w = k.input<T>(1);
    if (!IsStrided(g)) return Multiply(part, k, node, call);
    const ProductWay way = k.prepared<PreparedProduct>().way;
    const TakenPixels<T> pixels(g, call.x);
    if (!TakesPixels(part, way, g)) {
      call.scattered_x = &pixels;
      return Multiply(part, k, node, call);
    }
    T* const taken = reinterpret_cast<T*>(workspace);
    call.workspace = workspace + TakenPixelsBytes(part, way, g, k.output_type(0).dtype);
    if (part == ConvPart::kGradInput) {
      call.result = taken;
      Multiply(part, k, node, call);
      PutBackPixels(k.threads(), g, taken, k.output<T>(0));
    } else {
      TakePixels(k.threads(), g, call.x, taken);
      call.x = taken;
      Multiply(part, k, node, call);
    }
  });
  return absl::OkStatus();
}

// ---- the gradient of the weights, as one product of tall matrices ----

WhyNot WhyNotTall(const NodeTypes& types, const ConvGeometry& g) {
  if (WhyNot reason = WhyNotProduct(ConvPart::kGradWeight, types, {.geometry = g})) return reason;
  if (WhyNot reason = WhyNotInSteps(g)) return reason;
  const ProductSizes s = SizesOfProduct(ConvPart::kGradWeight, g);
  if (!IsTall(s.m, s.n, s.k)) return ByDesign("it is for many pixels and few channels");
  return std::nullopt;
}

absl::Status RunTall(const KernelContext& k, const ConvNode& node) {
  const ProductSizes s = SizesOfProduct(ConvPart::kGradWeight, node.geometry);
  WithFloatOf(k.output_type(0).dtype, [&](auto zero) {
    using T = decltype(zero);
    MultiplyTall<T>(k.threads(),
                    {.m = s.m, .n = s.n, .k = s.k, .a = k.input<T>(1), .b = k.input<T>(0), .c = k.output<T>(0)},
                    k.workspace<float>());
  });
  return absl::OkStatus();
}

// ---- the gradient of the weights of several taps, in the same way ----

WhyNot WhyNotPatches(const NodeTypes& types, const ConvGeometry& g) {
  if (WhyNot reason = WhyNotInFloat(types)) return reason;
  if (WhyNot reason = WhyNotByPixels(ConvPart::kGradWeight, types, g)) return reason;
  if (g.taps() == 1) return ByDesign("it is for several taps");
  if (g.dilation[static_cast<size_t>(g.spatial - 1)] != 1) return ByDesign("it wants taps side by side");
  return std::nullopt;
}

// [out, taps * in]: what the sums of a gradient are.
ProductSizes SizesOfPatches(const ConvGeometry& g) {
  ProductSizes sizes = SizesOfProduct(ConvPart::kGradWeight, g);
  sizes.n *= g.taps();
  return sizes;
}

// The library's gradients of weights are slow where a convolution goes in steps, but not those of few channels, for
// which it needs no workspace either. This is asked beside a library only.
[[maybe_unused]] bool PatchesPay(const ConvGeometry& g) {
  constexpr int64_t kManyChannels = 128, kLeastPixels = 256;
  return IsStrided(g) && SizesOfPatches(g).k >= kLeastPixels && g.in_channels >= kManyChannels;
}

absl::Status PreparePatches(PrepareContext& c, const ConvGeometry& g) {
  if (LeftToAnother(c, "patches")) return absl::OkStatus();
#if SNUG_HAS_ONEDNN
  if (c.choice().empty() && !PatchesPay(g)) {
    c.Decline(ByDesign("the library does as well"));
    return absl::OkStatus();
  }
#endif
  const ProductSizes s = SizesOfPatches(g);
  c.SetWorkspaceBytes(TallWorkspaceBytes(s.m, s.n, s.k));
  return absl::OkStatus();
}

absl::Status RunPatches(const KernelContext& k, const ConvNode& node) {
  const ConvGeometry& g = node.geometry;
  const ProductSizes s = SizesOfPatches(g);
  WithFloatOf(k.output_type(0).dtype, [&](auto zero) {
    using T = decltype(zero);
    const Patches<T> patches(g, k.input<T>(0));
    MultiplyTall<T>(
        k.threads(),
        {.m = s.m, .n = s.n, .k = s.k, .a = k.input<T>(1), .made_b = &patches, .groups = g.taps(), .c = k.output<T>(0)},
        k.workspace<float>());
  });
  return absl::OkStatus();
}

}  // namespace

bool IsOwnProduct(const PrepareContext& c, ConvPart part, DescribeConv describe) {
  const ConvNode node = describe(c.types());
  return !WhyNotProduct(part, c.types(), node).has_value() && !ProductLeftToLibrary(c, part, node);
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

KernelRow TallConvRow(DescribeConv describe, VariantsFn variants) {
  return {.name = "tall",
          .serves = [=](const NodeTypes& types) { return WhyNotTall(types, describe(types).geometry); },
          .prepare =
              [=](PrepareContext& c) {
                if (LeftToAnother(c, "tall")) return absl::OkStatus();
                const ProductSizes s = SizesOfProduct(ConvPart::kGradWeight, describe(c.types()).geometry);
                c.SetWorkspaceBytes(TallWorkspaceBytes(s.m, s.n, s.k));
                return absl::OkStatus();
              },
          .variants = std::move(variants),
          .run = [=](const KernelContext& k) { return RunTall(k, describe(k.types())); }};
}

KernelRow PatchesConvRow(DescribeConv describe, VariantsFn variants) {
  return {.name = "patches",
          .serves = [=](const NodeTypes& types) { return WhyNotPatches(types, describe(types).geometry); },
          .prepare = [=](PrepareContext& c) { return PreparePatches(c, describe(c.types()).geometry); },
          .variants = std::move(variants),
          .run = [=](const KernelContext& k) { return RunPatches(k, describe(k.types())); }};
}

KernelRow ProductConvRow(ConvPart part, DescribeConv describe, VariantsFn variants) {
  return {.name = "product",
          .serves = [=](const NodeTypes& types) { return WhyNotProduct(part, types, describe(types)); },
          .prepare = [=](PrepareContext& c) { return PrepareProduct(c, part, describe(c.types())); },
          .variants = std::move(variants),
          .run = [=](const KernelContext& k) { return RunProduct(part, k, describe(k.types())); }};
}

}  // namespace snug::core::ops
