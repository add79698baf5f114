// The row of products by oneDNN.
#include <array>
#include <string>
#include <vector>

#include "engine/base/status.h"
#include "ops/kernels/matmul/onednn.h"
#include "ops/kernels/matmul/onednn_bfloat16.h"
#include "ops/kernels/matmul/rows.h"

namespace snug::core {
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

absl::Status RunOneDnnMatMul(const KernelContext& k, const MatMulNode& node) {
  std::array<const void*, 4> arguments = {k.input<void>(node.a), k.input<void>(node.b)};
  size_t count = 2;
  if (node.bias >= 0) arguments[count++] = k.input<void>(node.bias);
  arguments[count++] = k.output<void>(0);
  return k.prepared<onednn::Kernel>().Run({arguments.data(), count}, k.workspace());
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

}  // namespace

KernelRow OneDnnMatMulRow(DescribeMatMul describe) {
  return {.name = "onednn",
          .library = "oneDNN",
          .serves = NotInDouble,
          .prepare = [describe](PrepareContext& c) { return PrepareOneDnnMatMul(c, describe(c.types())); },
          .tunable = true,
          .variants =
              [describe](const PrepareContext& c) {
                return OneDnnMatMulVariants(describe(c.types()), c.types().output(0).dtype, c.threads());
              },
          .run = [describe](const KernelContext& k) { return RunOneDnnMatMul(k, describe(k.types())); }};
}

}  // namespace snug::core
