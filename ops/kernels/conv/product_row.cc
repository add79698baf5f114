// The row of convolutions that are products of matrices: panels or blocks of them are multiplied, or pieces put
// together, and pixels are taken and put back where a convolution goes in steps.
#include <algorithm>
#include <cstdint>
#include <memory>
#include <type_traits>

#include "engine/base/status.h"
#include "ops/kernel_context.h"
#include "ops/kernels/conv/own_rows.h"
#include "ops/kernels/conv/pixels.h"
#include "ops/kernels/conv/product_choice.h"
#include "ops/kernels/conv/row_parts.h"
#include "ops/kernels/matmul/blocked.h"
#include "ops/kernels/matmul/panels.h"
#include "ops/kernels/matmul/parts.h"
#include "ops/kernels/matmul/split_gemm.h"
#include "ops/prepare_context.h"

namespace snug::core::ops {
namespace {

// The weights are packed as a whole, and the pixels are read as they are. In the gradient of the weights both factors
// are pixels.
PanelsShape PanelsOfWeights(ConvPart part, const ConvGeometry& g) {
  const ProductSizes sizes = SizesOfProduct(part, g);
  return {.n = sizes.n, .k = sizes.k, .transposed = part == ConvPart::kForward};
}

struct PreparedProduct {
  ProductWay way = ProductWay::kPanels;
};

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

}  // namespace

KernelRow ProductConvRow(ConvPart part, DescribeConv describe) {
  return {.name = "product",
          .serves = [=](const NodeTypes& types) { return WhyNotProduct(part, types, describe(types)); },
          .prepare = [=](PrepareContext& c) { return PrepareProduct(c, part, describe(c.types())); },
          .tunable = true,
          .run = [=](const KernelContext& k) { return RunProduct(part, k, describe(k.types())); }};
}

}  // namespace snug::core::ops
