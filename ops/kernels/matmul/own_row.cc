// The row of products by our own loops, on matrices as they are.
#include <memory>
#include <optional>
#include <string>

#include "engine/base/status.h"
#include "ops/kernels/matmul/blocked.h"
#include "ops/kernels/matmul/rows.h"
#include "ops/kernels/matmul/short_gemm.h"
#include "ops/kernels/matmul/split_gemm.h"
#include "ops/own_products.h"
#if SNUG_HAS_ONEDNN
#include "ops/kit/onednn.h"
#endif

namespace snug::core {
namespace {

std::optional<NotServed> WhyNotOwn(const NodeTypes& types, const MatMulNode& node) {
  if (std::optional<NotServed> in_double = NotInDouble(types)) return in_double;
  if (node.batch.num_elements() != 1) return ByDesign("it multiplies one pair of matrices, not several");
  if (!OwnLoopsMultiply(types.output(0).dtype)) {
    return ByDesign("it multiplies in float, and this processor has faster products of bfloat16");
  }
  return std::nullopt;
}

// Calls f with zeros of the types of a, b and c.
template <class Fn>
void WithTypesOf(const NarrowTypes& narrow, const Fn& f) {
  SNUG_CHECK(narrow.served());
  if (!narrow.any()) return f(0.0F, 0.0F, 0.0F);
  if (!narrow.b) return f(BFloat16(), 0.0F, BFloat16());
  if (!narrow.c) return f(BFloat16(), BFloat16(), 0.0F);
  return f(BFloat16(), BFloat16(), BFloat16());
}

// Says whether the weights are read where they are, as packing them would take as long as the product.
bool TakesShort(const NarrowTypes& narrow, const MatMulNode& node) {
  return narrow.a && !narrow.b && narrow.c && !node.transpose_a && node.transpose_b && IsShort(node.m);
}

constexpr absl::string_view kSplit = "split";  // a variant

// What the own row's Prepare found.
struct OwnProduct {
  bool split = false;
};

absl::Status PrepareOwn(PrepareContext& c, const MatMulNode& node) {
  if (!c.choice().empty() && c.choice() != "own") {
    c.Decline(ByDesign("the tuning asks for another"));
    return absl::OkStatus();
  }
  const bool split = IsSplitMatMul(c, node);
  c.SetKernel(std::make_shared<const OwnProduct>(OwnProduct{split}));
  if (split) {
    c.SetVariant(std::string(kSplit));
    c.SetWorkspaceBytes(SplitGemmWorkspaceBytes(c.threads(), node.m, node.n, node.k));
    return absl::OkStatus();
  }
  if (c.choice().empty() && IsLeftToLibrary(c.types(), node)) {
    c.Decline(ByDesign("it pays from 33 million multiply-adds on, or on 16 samples of bfloat16"));
    return absl::OkStatus();
  }
  const NarrowTypes narrow(c.types(), node);
  if (narrow.any() && !c.unrounded()) {
    c.WantUnrounded();
    return absl::OkStatus();
  }
  if (!narrow.served()) {
    c.WantFloat32();
    return absl::OkStatus();
  }
  if (TakesShort(narrow, node)) {
    c.SetWorkspaceBytes(ShortGemmWorkspaceBytes(c.threads(), node.m, node.k));
    return absl::OkStatus();
  }
  c.SetWorkspaceBytes(narrow.c ? BlockedGemmWorkspaceBytes<BFloat16>(c.threads(), node.m, node.n, node.k)
                               : BlockedGemmWorkspaceBytes<float>(c.threads(), node.m, node.n, node.k));
  return absl::OkStatus();
}

absl::Status RunOwn(const KernelContext& k, const MatMulNode& node) {
  if (k.prepared<OwnProduct>().split) {
    SplitGemm(k.threads(), CallOf<float>(k, node), node.activation, k.workspace<void>());
    return absl::OkStatus();
  }
  const NarrowTypes narrow(k.types(), node);
  if (TakesShort(narrow, node)) {
    ShortGemm(k.threads(), CallOf<BFloat16, float, BFloat16>(k, node), node.activation, k.workspace<void>());
    return absl::OkStatus();
  }
  WithTypesOf(narrow, [&](auto a, auto b, auto c) {
    BlockedGemm(k.threads(), CallOf<decltype(a), decltype(b), decltype(c)>(k, node), node.activation,
                k.workspace<void>());
  });
  return absl::OkStatus();
}

}  // namespace

bool OwnLoopsMultiply(DType dtype) {
#if SNUG_HAS_ONEDNN
  if (dtype == DType::kBFloat16) return !onednn::MultipliesBFloat16();
#endif
  return dtype == DType::kFloat32 || dtype == DType::kBFloat16;
}

// In float32 the library's small products are as fast or faster. On bfloat16 they would stand between casts, which only
// pays where samples are so few that packing the weights takes longer than multiplying by them.
bool IsLeftToLibrary([[maybe_unused]] const NodeTypes& types, [[maybe_unused]] const MatMulNode& node) {
#if SNUG_HAS_ONEDNN
  if (node.slope != SlopeOf::kNothing) return false;  // it has no row for these
  if (MultiplyAdds(node) >= kOwnProductPaysFrom) return false;
  constexpr int64_t kLeastSamples = 16;
  return !NarrowTypes(types, node).any() || (!node.transpose_a && node.m < kLeastSamples);
#else
  return false;
#endif
}

bool IsSplitMatMul(const PrepareContext& c, const MatMulNode& node) {
  return c.licence().split_products && !NarrowTypes(c.types(), node).any() && MachineSplitsProducts() &&
         SplittingPays(node.m, node.n, node.k);
}

KernelRow OwnMatMulRow(DescribeMatMul describe) {
  return {.name = "own",
          .serves = [describe](const NodeTypes& types) { return WhyNotOwn(types, describe(types)); },
          .prepare = [describe](PrepareContext& c) { return PrepareOwn(c, describe(c.types())); },
          .tunable = true,
          .run = [describe](const KernelContext& k) { return RunOwn(k, describe(k.types())); }};
}

}  // namespace snug::core
