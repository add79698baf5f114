#include "ops/kernels/matmul/node.h"

#include <array>
#include <optional>

#include "engine/base/parallel.h"
#include "engine/base/status.h"
#include "ops/kernels/activation/in_place.h"
#include "ops/kernels/matmul/blocked.h"
#include "ops/kernels/matmul/finish.h"
#include "ops/kernels/matmul/gemm.h"
#include "ops/kernels/matmul/panels.h"
#include "ops/kernels/matmul/short_gemm.h"
#include "ops/kernels/matmul/split_gemm.h"
#include "ops/kernels/reduce/reduce.h"
#include "ops/kit/dispatch.h"
#include "ops/kit/elementwise.h"
#include "ops/math/functions.h"
#include "ops/own_products.h"
#if SNUG_HAS_ONEDNN
#include "ops/kernels/matmul/onednn.h"
#include "ops/kernels/matmul/onednn_bfloat16.h"
#endif
#if SNUG_HAS_CUDA
#include "ops/kernels/matmul/cuda.h"
#endif

namespace snug::core {

double MultiplyAdds(const MatMulNode& node) {
  return static_cast<double>(node.batch.num_elements()) * static_cast<double>(node.m) * static_cast<double>(node.n) *
         static_cast<double>(node.k);
}

namespace {

template <class A, class B = A, class C = A>
GemmCall<A, B, C> CallOf(const KernelContext& k, const MatMulNode& node) {
  return {.m = node.m,
          .n = node.n,
          .k = node.k,
          .a = {k.input<A>(node.a), node.transpose_a ? 1 : node.k, node.transpose_a ? node.m : 1},
          .b = {k.input<B>(node.b), node.transpose_b ? 1 : node.n, node.transpose_b ? node.k : 1},
          .c = k.output<C>(0),
          .bias = node.bias < 0 ? nullptr : k.input<B>(node.bias),
          .slope = node.slope,
          .slope_at = node.slope_at < 0 ? nullptr : k.input<C>(node.slope_at),
          .batch = node.batch,
          .a_batch = node.a_batch,
          .b_batch = node.b_batch};
}

absl::Status RunPlainMatMul(const KernelContext& k, const MatMulNode& node) {
  return DispatchFloating(k.output_type(0).dtype, [&](auto zero) {
    using T = decltype(zero);
    const GemmCall<T> call = CallOf<T>(k, node);
    Gemm(k.threads(), call);
    if (node.sums_a) {
      Reduce<SumOp>(k.threads(), PlanSumToShape(k.input_type(node.a), k.output_type(1)), k.input<T>(node.a),
                    k.output<T>(1));
    }
    WithGradientOf(node.slope, [&](auto gradient) {
      Map(k.threads(), k.output_type(0).num_elements(), gradient, call.c, call.slope_at, static_cast<const T*>(call.c));
    });
    if (node.gelu) {
      Map(k.threads(), k.output_type(0).num_elements(), functions::GeluByTanh(), k.output<T>(1),
          static_cast<const T*>(call.c));
    }
    ActivateInPlace(k.threads(), k.output_type(0).num_elements(), node.activation, call.c);
    return absl::OkStatus();
  });
}

// ---- our own loops ----

std::optional<NotServed> WhyNotOwn(const NodeTypes& types, const MatMulNode& node) {
  if (std::optional<NotServed> in_double = NotInDouble(types)) return in_double;
  if (node.batch.num_elements() != 1) return ByDesign("it multiplies one pair of matrices, not several");
  if (node.slope != SlopeOf::kNothing && types.output(0).dtype != DType::kFloat32) {
    return ByDesign("it multiplies by slopes in float32 alone");
  }
#if SNUG_HAS_ONEDNN
  if (types.output(0).dtype == DType::kBFloat16 && onednn::MultipliesBFloat16()) {
    return ByDesign("it multiplies in float, and this processor has faster products of bfloat16");
  }
#endif
  return std::nullopt;
}

// What of a node's operands and result is bfloat16.
struct Narrow {
  Narrow(const NodeTypes& types, const MatMulNode& node)
      : a(types.input(node.a).dtype == DType::kBFloat16),
        b(types.input(node.b).dtype == DType::kBFloat16),
        c(types.output(0).dtype == DType::kBFloat16),
        bias(node.bias < 0 ? b : types.input(node.bias).dtype == DType::kBFloat16) {}
  bool any() const { return a || b || c || bias; }
  // Says whether there is a product of these types.
  bool served() const { return bias == b && (!any() || (a && (b || c))); }
  bool a, b, c, bias;
};

// Calls f with zeros of the types of a, b and c.
template <class Fn>
void WithTypesOf(const Narrow& narrow, const Fn& f) {
  SNUG_CHECK(narrow.served());
  if (!narrow.any()) return f(0.0F, 0.0F, 0.0F);
  if (!narrow.b) return f(BFloat16(), 0.0F, BFloat16());
  if (!narrow.c) return f(BFloat16(), BFloat16(), 0.0F);
  return f(BFloat16(), BFloat16(), BFloat16());
}

// Says whether the weights are read where they are, as packing them would take as long as the product.
bool TakesShort(const Narrow& narrow, const MatMulNode& node) {
  return narrow.a && !narrow.b && narrow.c && !node.transpose_a && node.transpose_b && IsShort(node.m);
}

// In float32 the library's small products are as fast or faster. On bfloat16 they would stand between casts, which only
// pays where samples are so few that packing the weights takes longer than multiplying by them.
bool LeftToLibrary([[maybe_unused]] const NodeTypes& types, [[maybe_unused]] const MatMulNode& node) {
#if SNUG_HAS_ONEDNN
  if (node.slope != SlopeOf::kNothing) return false;  // it has no row for these
  if (MultiplyAdds(node) >= kOwnProductPaysFrom) return false;
  constexpr int64_t kLeastSamples = 16;
  return !Narrow(types, node).any() || (!node.transpose_a && node.m < kLeastSamples);
#else
  return false;
#endif
}

constexpr absl::string_view kSplit = "split";  // a variant

// What the own row's Prepare found.
struct OwnProduct {
  bool split = false;
};

bool IsSplit(const PrepareContext& c, const MatMulNode& node) {
  return c.licence().split_products && !Narrow(c.types(), node).any() && MachineSplitsProducts() &&
         SplittingPays(node.m, node.n, node.k);
}

absl::Status PrepareOwn(PrepareContext& c, const MatMulNode& node) {
  if (!c.choice().empty() && c.choice() != "own") {
    c.Decline(ByDesign("the tuning asks for another"));
    return absl::OkStatus();
  }
  const bool split = IsSplit(c, node);
  c.SetKernel(std::make_shared<const OwnProduct>(OwnProduct{split}));
  if (split) {
    c.SetVariant(std::string(kSplit));
    c.SetWorkspaceBytes(SplitGemmWorkspaceBytes(c.threads(), node.m, node.n, node.k));
    return absl::OkStatus();
  }
  if (c.choice().empty() && LeftToLibrary(c.types(), node)) {
    c.Decline(ByDesign("it pays from 33 million multiply-adds on, or on 16 samples of bfloat16"));
    return absl::OkStatus();
  }
  const Narrow narrow(c.types(), node);
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
  const Narrow narrow(k.types(), node);
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

// ---- our own loops on panels that are kept, or packed once for all rounds of a loop ----

std::optional<NotServed> WhyNotPanels(const NodeTypes& types, const MatMulNode& node) {
  if (types.output(0).dtype != DType::kFloat32) return ByDesign("it is for float32");
  if (node.batch.num_elements() != 1) return ByDesign("it multiplies one pair of matrices, not several");
  if (node.transpose_a) return ByDesign("it reads rows");
  constexpr int64_t kLeastColumns = 16;  // half a panel: the rest is multiplied in vain
  if (node.n < kLeastColumns) return ByDesign("it pays from 16 columns on");
  if (node.gelu || node.sums_a) return ByDesign("it has one result");
  return std::nullopt;
}

constexpr absl::string_view kBlocks = "blocks";  // a variant: panels are packed block by block on the way

constexpr int64_t kLargeWeight = 1 << 20;  // numbers

// A copy of a large weight takes much memory, and packing it in each product much time where rows are few. A single row
// is multiplied in the time of reading the weight.
bool TooFewRowsToPack(const PrepareContext& c, const MatMulNode& node) {
  return node.m == 1 || (node.k * node.n > kLargeWeight && LeftToLibrary(c.types(), node));
}

// Of many rows, packing takes no time to speak of. The bits are the same, so a product may be computed in one way here
// and in the other there.
bool PacksOnTheWay(const MatMulNode& node) {
  constexpr int64_t kManyRows = 512;
  return node.m >= kManyRows || node.k * node.n > kLargeWeight;
}

absl::Status PreparePanels(PrepareContext& c, const MatMulNode& node) {
  if (IsSplit(c, node)) {
    c.Decline(ByDesign("its pieces are packed in each product"));
    return absl::OkStatus();
  }
  if (IsPanels(c.types().input(node.b).layout)) return absl::OkStatus();
  if (!c.kept(node.b) && TooFewRowsToPack(c, node)) {
    c.Decline(ByDesign("of so few rows, packing the weight takes more than it saves"));
    return absl::OkStatus();
  }
  if (!c.kept(node.b) && PacksOnTheWay(node)) {
    c.SetVariant(std::string(kBlocks));
    c.SetWorkspaceBytes(BlockedGemmWorkspaceBytes<float>(c.threads(), node.m, node.n, node.k));
    return absl::OkStatus();
  }
  c.WantInputLayout(node.b, PanelsLayout({.n = node.n, .k = node.k, .transposed = node.transpose_b}));
  return absl::OkStatus();
}

absl::Status RunPanels(const KernelContext& k, const MatMulNode& node) {
  if (!IsPanels(k.input_type(node.b).layout)) {
    BlockedGemm(k.threads(), CallOf<float>(k, node), node.activation, k.workspace<void>());
    return absl::OkStatus();
  }
  MultiplyByPanels<float>(k.threads(), {.m = node.m,
                                        .n = node.n,
                                        .k = node.k,
                                        .a = k.input<float>(node.a),
                                        .panels = k.input<float>(node.b),
                                        .bias = node.bias < 0 ? nullptr : k.input<float>(node.bias),
                                        .activation = node.activation,
                                        .c = k.output<float>(0)});
  return absl::OkStatus();
}

}  // namespace

#if SNUG_HAS_ONEDNN
namespace {

constexpr absl::string_view kLoops = "loops";  // our own loops, which need no setup

absl::Status PrepareOneDnnMatMul(PrepareContext& c, const MatMulNode& node) {
  if (onednn::ComputesInFloat32(c)) return absl::OkStatus();
  const DType dtype = c.types().output(0).dtype;
  if (c.choice() == kLoops) {
    c.Decline(ByDesign("the tuning asks for our own loops"));
    return absl::OkStatus();
  }
  const Layout& b_layout = c.types().input(node.b).layout;
  const absl::StatusOr<onednn::MatMulKernel> made =
      onednn::MakeMatMul(node, dtype, b_layout, c.threads(), onednn::ChosenImplementation(c));
  if (onednn::Declines(c, made.status())) return absl::OkStatus();
  SNUG_RETURN_IF_ERROR(made.status());
  if (made->kernel == nullptr) {
    c.WantInputLayout(node.b, made->b);
    return absl::OkStatus();
  }
  c.SetWorkspaceBytes(made->kernel->workspace_bytes());
  c.SetKernel(made->kernel);
  return absl::OkStatus();
}

// Lists the library's other implementations, and our own loops.
absl::StatusOr<std::vector<std::string>> OneDnnMatMulVariants(const MatMulNode& node, DType dtype, int threads) {
  if (!onednn::Supports(dtype)) return std::vector<std::string>();
  SNUG_ASSIGN_OR_RETURN(std::vector<std::string> names, onednn::MatMulImplementations(node, dtype, threads));
  names.emplace_back(kLoops);
  SNUG_RETURN_IF_ERROR(
      onednn::OfferOtherWay(dtype, onednn::MakeMatMul(node, dtype, Layout::Plain(), threads).status(), names));
  return names;
}

absl::Status RunOneDnnMatMul(const KernelContext& k, const MatMulNode& node) {
  std::array<const void*, 4> arguments = {k.input<void>(node.a), k.input<void>(node.b)};
  size_t count = 2;
  if (node.bias >= 0) arguments[count++] = k.input<void>(node.bias);
  arguments[count++] = k.output<void>(0);
  return k.prepared<onednn::Kernel>().Run({arguments.data(), count}, k.workspace());
}
KernelRow OneDnnMatMulRow(DescribeMatMul describe) {
  return {.name = "onednn",
          .library = "oneDNN",
          .serves = NotInDouble,
          .prepare = [describe](PrepareContext& c) { return PrepareOneDnnMatMul(c, describe(c.types())); },
          .variants =
              [describe](const PrepareContext& c) {
                return OneDnnMatMulVariants(describe(c.types()), c.types().output(0).dtype, c.threads());
              },
          .run = [describe](const KernelContext& k) { return RunOneDnnMatMul(k, describe(k.types())); }};
}

}  // namespace
#endif

namespace {

// ---- rows ----

absl::StatusOr<std::vector<std::string>> OwnVariants([[maybe_unused]] const PrepareContext& c,
                                                     [[maybe_unused]] const MatMulNode& node) {
  std::vector<std::string> names;
#if SNUG_HAS_ONEDNN
  if (node.slope != SlopeOf::kNothing) return names;  // it has no row for these
  SNUG_ASSIGN_OR_RETURN(names, OneDnnMatMulVariants(node, c.types().output(0).dtype, c.threads()));
  if (!WhyNotOwn(c.types(), node).has_value())
    names.insert(names.begin(), LeftToLibrary(c.types(), node) && !IsSplit(c, node) ? "own" : "onednn");
#endif
  return names;
}

KernelRow OwnMatMulRow(DescribeMatMul describe) {
  return {.name = "own",
          .serves = [describe](const NodeTypes& types) { return WhyNotOwn(types, describe(types)); },
          .prepare = [describe](PrepareContext& c) { return PrepareOwn(c, describe(c.types())); },
          .variants = [describe](const PrepareContext& c) { return OwnVariants(c, describe(c.types())); },
          .run = [describe](const KernelContext& k) { return RunOwn(k, describe(k.types())); }};
}

KernelRow PanelsMatMulRow(DescribeMatMul describe) {
  return {.name = "panels",
          .kept_input = [describe](const NodeTypes& types) { return describe(types).b; },
          .serves = [describe](const NodeTypes& types) { return WhyNotPanels(types, describe(types)); },
          .prepare = [describe](PrepareContext& c) { return PreparePanels(c, describe(c.types())); },
          .run = [describe](const KernelContext& k) { return RunPanels(k, describe(k.types())); }};
}

}  // namespace

std::vector<KernelRow> MatMulKernels(DescribeMatMul describe, bool by_weights) {
  std::vector<KernelRow> rows;
  if (by_weights) rows.push_back(PanelsMatMulRow(describe));
  rows.push_back(OwnMatMulRow(describe));
#if SNUG_HAS_ONEDNN
  rows.push_back(OneDnnMatMulRow(describe));
#endif
  rows.push_back(Plain([describe](const KernelContext& k) { return RunPlainMatMul(k, describe(k.types())); }));
#if SNUG_HAS_CUDA
  rows.push_back(SmallCudaMatMulRow(describe));
  rows.push_back(CublasMatMulRow(describe));
  rows.push_back(OwnCudaMatMulRow(describe));
#endif
  return rows;
}

std::vector<KernelRow> CudaFusedMatMulKernels(DescribeMatMul describe) {
  std::vector<KernelRow> rows = {
      Plain([describe](const KernelContext& k) { return RunPlainMatMul(k, describe(k.types())); })};
#if SNUG_HAS_CUDA
  rows.push_back(SmallCudaMatMulRow(describe));
  rows.push_back(CublasMatMulRow(describe));
  rows.push_back(OwnCudaMatMulRow(describe));
#endif
  return rows;
}

std::vector<KernelRow> MatMulKernelsWithSlope(DescribeMatMul describe, bool on_cuda) {
  const auto plain = Plain([describe](const KernelContext& k) { return RunPlainMatMul(k, describe(k.types())); });
  std::vector<KernelRow> rows = {OwnMatMulRow(describe)};
  if (!on_cuda) {
    rows.push_back(plain);
    return rows;
  }
  for (KernelRow& row : CudaFusedMatMulKernels(describe)) rows.push_back(std::move(row));
  return rows;
}

}  // namespace snug::core
