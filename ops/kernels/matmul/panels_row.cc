// The row of products by our own loops, on weights that are panels: kept, or packed once for all rounds of a loop.
#include <optional>
#include <string>

#include "engine/base/status.h"
#include "ops/kernels/matmul/blocked.h"
#include "ops/kernels/matmul/panels.h"
#include "ops/kernels/matmul/rows.h"

namespace snug::core {
namespace {

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
  return node.m == 1 || (node.k * node.n > kLargeWeight && IsLeftToLibrary(c.types(), node));
}

// Of many rows, packing takes no time to speak of. The bits are the same, so a product may be computed in one way here
// and in the other there.
bool PacksOnTheWay(const MatMulNode& node) {
  constexpr int64_t kManyRows = 512;
  return node.m >= kManyRows || node.k * node.n > kLargeWeight;
}

absl::Status PreparePanels(PrepareContext& c, const MatMulNode& node) {
  if (IsSplitMatMul(c, node)) {
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

KernelRow PanelsMatMulRow(DescribeMatMul describe) {
  return {.name = "panels",
          .kept_input = [describe](const NodeTypes& types) { return describe(types).b; },
          .serves = [describe](const NodeTypes& types) { return WhyNotPanels(types, describe(types)); },
          .prepare = [describe](PrepareContext& c) { return PreparePanels(c, describe(c.types())); },
          .run = [describe](const KernelContext& k) { return RunPanels(k, describe(k.types())); }};
}

}  // namespace snug::core
