// The kernel rows of matrix products by our own CUDA kernels (cuda.cu, cuda_small.cu).
#include "ops/kernels/matmul/cuda.h"

#include <algorithm>
#include <array>
#include <memory>

#include "engine/base/status.h"
#include "ops/kernels/matmul/cuda_small.h"
#include "ops/kernels/reduce/cuda.h"
#include "ops/kit/elementwise.h"
#include "ops/kit/library_variant.h"
#include "ops/math/functions.h"
#include "ops/small_products.h"

namespace snug::core {

int64_t SumsOfFactorWorkspace(const NodeTypes& types, const MatMulNode& node) {
  if (!node.sums_a) return 0;
  const ReducePlan plan = PlanSumToShape(types.input(node.a), types.output(1));
  return CudaReduceSpread(plan, types.input(node.a).dtype).WorkspaceBytes();
}

NodeTypes SweepTypes(const NodeTypes& types, const MatMulNode& node) {
  if (node.gelu) return {.inputs = {types.output(0)}, .present = {true}, .outputs = {types.output(1)}};
  if (node.slope_at < 0) return {};
  return {
      .inputs = {types.input(node.slope_at), types.output(0)}, .present = {true, true}, .outputs = {types.output(0)}};
}

absl::Status FinishFusedCuda(const KernelContext& k, const MatMulNode& node, const NodeTypes& inner) {
  if (node.sums_a) return SumPortCuda(k, PlanSumToShape(k.input_type(node.a), k.output_type(1)), node.a, 1);
  if (node.gelu) {
    const std::array<void*, 1> inputs = {k.output<void>(0)};
    const std::array<void*, 1> outputs = {k.output<void>(1)};
    const KernelContext gelu(&inner, inputs, outputs, nullptr, nullptr, k.threads(), k.random_id(), k.cuda());
    return ElementwiseCuda<functions::GeluByTanh>(gelu);
  }
  if (node.slope_at < 0) return absl::OkStatus();
  // In place: the product is dy.
  void* const c = k.output<void>(0);
  const std::array<void*, 2> inputs = {k.variable<void>(node.slope_at), c};
  const std::array<void*, 1> outputs = {c};
  const KernelContext sweep(&inner, inputs, outputs, nullptr, nullptr, k.threads(), k.random_id(), k.cuda());
  return ElementwiseCuda<functions::ReluGrad>(sweep);
}

// ---- small products ----

namespace {

constexpr absl::string_view kSmall = "small";

bool Pays(const PrepareContext& c, const MatMulNode& node) {
  return SmallProductPays(node.m, node.n, node.k, c.types().output(0).dtype, c.licence().tf32);
}

absl::Status PrepareSmall(PrepareContext& c, const MatMulNode& node) {
  if (!c.choice().empty() && c.choice() != kSmall) {
    c.Decline(ByDesign("the tuning asks for another"));
    return absl::OkStatus();
  }
  if (c.choice().empty() && !Pays(c, node)) {
    c.Decline(ByDesign("it pays for results that are few tiles of the library's, and sums that are not long"));
    return absl::OkStatus();
  }
  c.SetVariant(std::string(kSmall));
  return absl::OkStatus();
}

// Lists the library's kernels, and our other one. Where the library's is the default, this one is what else there is.
std::vector<std::string> SmallVariants(const PrepareContext& c, const MatMulNode& node) {
  std::vector<std::string> others = OtherLibraryVariants(c, /*varies=*/false);
  others.insert(others.begin(), Pays(c, node) ? LicensedLibraryVariant(c, /*varies=*/false) : std::string(kSmall));
  return others;
}

}  // namespace

std::optional<NotServed> WhyNotSmallProduct(const MatMulNode& node) {
  constexpr int64_t kMostResults = 1 << 20;
  constexpr int64_t kMostTerms = 1 << 20;
  if (node.batch.num_elements() != 1) return ByDesign("it multiplies one pair of matrices, not several");
  if (std::min({node.m, node.n, node.k}) < 1 || std::max(node.m, node.n) > kMostResults ||
      node.m * node.n > kMostResults || node.k > kMostTerms) {
    return ByDesign("it is for at most 1048576 results and as many terms of a sum");
  }
  return std::nullopt;
}

KernelRow SmallCudaMatMulRow(DescribeMatMul describe) {
  return {.device = kOnCuda,
          .name = kSmall,
          .serves = [describe](const NodeTypes& types) { return WhyNotSmallProduct(describe(types)); },
          .prepare = [describe](PrepareContext& c) { return PrepareSmall(c, describe(c.types())); },
          .variants = [describe](const PrepareContext& c) -> absl::StatusOr<std::vector<std::string>> {
            return SmallVariants(c, describe(c.types()));
          },
          .run = [describe](const KernelContext& k) { return RunSmallProduct(k, describe(k.types())); }};
}

// ---- all others ----

KernelRow OwnCudaMatMulRow(DescribeMatMul describe) {
  return {.device = kOnCuda,
          .name = "own",
          .prepare = [describe](PrepareContext& c) -> absl::Status {
            SNUG_RETURN_IF_ERROR(TakeOwnBesideLibrary(c));
            const MatMulNode node = describe(c.types());
            c.SetKernel(std::make_shared<NodeTypes>(SweepTypes(c.types(), node)));
            c.SetWorkspaceBytes(std::max(OwnCudaMatMulWorkspace(node, c.types().output(0).dtype),
                                         SumsOfFactorWorkspace(c.types(), node)));
            return absl::OkStatus();
          },
          .run = [describe](const KernelContext& k) -> absl::Status {
            const MatMulNode node = describe(k.types());
            SNUG_RETURN_IF_ERROR(RunOwnCudaMatMul(k, node));
            return FinishFusedCuda(k, node, k.prepared<NodeTypes>());
          }};
}

}  // namespace snug::core
