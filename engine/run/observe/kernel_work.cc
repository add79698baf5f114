#include "engine/run/observe/kernel_work.h"

#include <absl/strings/match.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "ops/few_rows.h"
#include "ops/kernel_launches.h"
#include "ops/norm_grad_parts.h"

namespace snug::core {
namespace {

// Our own kernels whose work is not "one launch that streams each value once".
struct OwnWork {
  absl::string_view op;
  KernelWork work;
};
constexpr OwnWork kOwn[] = {
    // Sums for each channel in parts, the parts' sums, then a sweep over the same data.
    {"batch_norm", {KernelKind::kStreaming, 3, 1}},
    {"batch_norm_fused", {KernelKind::kStreaming, 3, 1}},
    {"batch_norm_grad", {KernelKind::kStreaming, 3, 2}},
    {"batch_norm_fused_grad", {KernelKind::kStreaming, 3, 2}},
    {"batch_norm_fused_add_grad", {KernelKind::kStreaming, 3, 2}},
    {"bias_grad", {KernelKind::kStreaming, 2}},
    // The gradients of weights are sums over rows, in parts; that of x is a sweep. Both are one where a warp holds a
    // row (WorkOfNormGrad).
    {"layer_norm_grad", {KernelKind::kStreaming, 3, 2}},
    {"rms_norm_grad", {KernelKind::kStreaming, 3, 2}},
    {"global_max_pool", {KernelKind::kScattered, 1}},
    {"global_max_pool_indices", {KernelKind::kScattered, 1}},
    // A thread for each element of the result, which looks at its window.
    {"max_pool", {KernelKind::kScattered}},
    {"max_pool_indices", {KernelKind::kScattered}},
    {"max_pool_grad", {KernelKind::kScattered}},
    {"avg_pool", {KernelKind::kScattered}},
    {"avg_pool_grad", {KernelKind::kScattered}},
    {"adaptive_avg_pool", {KernelKind::kScattered}},
    {"adaptive_avg_pool_grad", {KernelKind::kScattered}},
    {"adaptive_max_pool", {KernelKind::kScattered}},
    {"adaptive_max_pool_grad", {KernelKind::kScattered}},
    {"upsample_grad", {KernelKind::kScattered}},
    {"local_response_norm", {KernelKind::kScattered, 1, 4}},
    {"local_response_norm_grad", {KernelKind::kScattered, 2, 8}},
    // An element at a time, which in bfloat16 is 2 bytes.
    {"transpose", {KernelKind::kScattered}},
    {"reorder", {KernelKind::kScattered}},
    {"cumsum", {KernelKind::kScattered}},
    {"argmax", {KernelKind::kScattered}},
    {"top_k", {KernelKind::kScattered}},
    // Scores are computed once more for each of the gradients, so that every sum has one order: seven products for
    // five.
    {"attention", {KernelKind::kOwnTensorCore}},
    {"attention_grad", {KernelKind::kOwnTensorCore, 3, 0, 7.0 / 5}},
    {"packed_attention", {KernelKind::kOwnTensorCore}},
    {"packed_attention_grad", {KernelKind::kOwnTensorCore, 3, 0, 7.0 / 5}},
};

bool IsConvolution(const OpDef& op) { return absl::StartsWith(op.name, "conv"); }

// Says which of a convolution's values are the images and the weights.
struct ConvPorts {
  const ValueType &image, &weight;
};
ConvPorts PortsOf(const OpDef& op, const NodeTypes& types) {
  if (op.name == "conv_grad_weight") return {types.input(0), types.output(0)};
  if (op.name == "conv_grad_input") return {types.output(0), types.input(1)};
  return {types.input(0), types.input(1)};
}

KernelWork WorkOfLaunches(const CudaLaunches& of) {
  return {of.in_packs ? KernelKind::kStreaming : KernelKind::kScattered, of.launches, of.read_again};
}

// Losses, metrics and the test of the loss, whose launches few rows share. The rules are those that the launchers have.
std::optional<KernelWork> WorkOfLoss(const OpDef& op, const NodeTypes& types) {
  const KernelWork one = {KernelKind::kStreaming, 1};
  const KernelWork two = {KernelKind::kStreaming, 2};
  if (op.name == "mean_squared_error") return SquaredErrorBlocks(types.input(0).num_elements()) == 1 ? one : two;
  if (op.name == "all_finite") {
    const bool sets = OneBlockTestsFinite(types.input(0).num_elements());
    return KernelWork{KernelKind::kStreaming, types.num_inputs() + (sets ? 0 : 1)};
  }
  if (op.name == "nll_loss_grad") return CountsInBlocks(types.input(0).num_elements()) ? one : two;
  const bool metric = op.name == "accuracy" || op.name == "top_k_accuracy";
  const bool cross_entropy = absl::StartsWith(op.name, "softmax_cross_entropy");
  if (!metric && !cross_entropy && op.name != "nll_loss") return std::nullopt;
  const ValueType& x = types.input(0);
  const int64_t width = x.shape[x.shape.rank() - 1];
  const int64_t rows = x.num_elements() / std::max<int64_t>(width, 1);
  if (metric) return FitOneBlock(rows, ScoreThreads(width)) ? one : two;
  if (op.name == "nll_loss") {
    return KernelWork{KernelKind::kScattered, FitOneBlock(rows, 1) ? 1 : 2};
  }
  const bool counts_first = !IsFloating(types.input(1).dtype) && !CountsInBlocks(rows);
  if (op.name == "softmax_cross_entropy_grad") return counts_first ? two : one;
  KernelWork work = CrossEntropyFitsOneBlock(rows, width, x.dtype) ? one : two;
  if (op.name == "softmax_cross_entropy") return work;
  if (op.name == "softmax_cross_entropy_with_grad") {
    work.launches += counts_first ? 1 : 0;
    work.read_again = BlockHoldsRow(width, x.dtype) ? 0 : 1;
    return work;
  }
  return std::nullopt;
}

// By a library, with sweeps of ours around where data is folded: what they make of it is written, and read once more.
KernelWork WorkOfConvolution(const Step& step) {
  const KernelCalls calls = step.kernel->calls(step.prepared.get());
  double largest = 1;
  for (int i = 0; i < step.types.num_inputs(); ++i) {
    if (step.types.has_input(i)) largest = std::max(largest, static_cast<double>(step.types.input(i).size_bytes()));
  }
  return {KernelKind::kLibraryConvolution, 1 + static_cast<int>(calls.sweeps),
          (calls.sweep_bytes + calls.kept_bytes) / largest};
}

// The gradients of norms of rows that a warp holds.
std::optional<KernelWork> WorkOfNormGrad(const OpDef& op, const NodeTypes& types) {
  if (op.name != "layer_norm_grad" && op.name != "rms_norm_grad") return std::nullopt;
  const ValueType& x = types.input(0);
  const int64_t rows = std::max<int64_t>(types.input(op.name == "layer_norm_grad" ? 3 : 2).num_elements(), 1);
  if (!WarpHoldsRow(x.num_elements() / rows, x.dtype)) return std::nullopt;
  return KernelWork{KernelKind::kStreaming, 2};
}

int CeilLog2(double x) { return x <= 1 ? 0 : static_cast<int>(std::ceil(std::log2(x))); }

}  // namespace

KernelWork WorkOf(const OpDef& op, const Step& step) {
  const NodeTypes& types = step.types;
  if (!step.kernel->library.empty()) {
    if (step.kernel->calls != nullptr && IsConvolution(op)) return WorkOfConvolution(step);
    if (step.kernel->calls != nullptr) return {KernelKind::kLibraryProduct};
    if (absl::StrContains(op.name, "attention")) {
      // Backward the library begins with a kernel for sum(out * dout), and ends with one that casts dq.
      return {KernelKind::kLibraryAttention, absl::EndsWith(op.name, "_grad") ? 3 : 1};
    }
    if (op.name == "dense_grad_input_relu") return {KernelKind::kLibraryProduct, 2};  // relu's gradient is a sweep
    return {IsConvolution(op) ? KernelKind::kLibraryConvolution : KernelKind::kLibraryProduct};
  }
  if (IsConvolution(op) && step.kernel->name == "depthwise") {
    return {KernelKind::kStreaming, op.name == "conv_grad_weight" ? 2 : 1};
  }
  if (step.kernel->name == "small") return {KernelKind::kOwnProduct};  // and all that comes with it
  if (IsConvolution(op) || absl::StartsWith(op.name, "dense") || op.name == "matmul") {
    // The bias's gradient is a sum after the product, in parts where rows are many; gelu and the gradients of
    // activations are a sweep.
    int after = absl::StartsWith(op.name, "dense_grad_input_") || op.name == "dense_gelu" ? 1 : 0;
    if (op.name == "dense_grad_weight_bias") after = LaunchesOfSum(types.input(1), types.output(1)).launches;
    return {KernelKind::kOwnProduct, 1 + after};
  }
  if (op.name == "split") return {KernelKind::kStreaming, types.num_outputs()};
  if (op.name == "concat") return {KernelKind::kStreaming, types.num_inputs()};
  if (const std::optional<KernelWork> loss = WorkOfLoss(op, types)) return *loss;
  if (const std::optional<KernelWork> norm = WorkOfNormGrad(op, types)) return *norm;
  if (op.name == "global_norm") return {KernelKind::kStreaming, types.num_inputs() + 1};
  if (op.name == "embedding_grad" || op.name == "gather_grad") {
    // The gradient is cleared, positions are sorted in blocks of 1024 and merged, and each row is added up.
    double positions = 1;
    for (const ValueType& input : types.inputs) {
      if (!IsFloating(input.dtype)) positions = static_cast<double>(input.num_elements());
    }
    return {KernelKind::kStreaming, 3 + CeilLog2(positions / 1024)};
  }
  if (const std::optional<CudaLaunches> launches = LaunchesOfReduction(op, types)) return WorkOfLaunches(*launches);
  for (const OwnWork& own : kOwn) {
    if (own.op != op.name) continue;
    // Attention in float32 or float64 has no tensor cores to run on.
    const bool in_parts = own.work.kind == KernelKind::kOwnTensorCore && types.output(0).dtype != DType::kBFloat16;
    KernelWork work = own.work;
    if (in_parts) work.kind = KernelKind::kOwnProduct;
    return work;
  }
  return {};
}

ProductShape ProductOf(const OpDef& op, const NodeTypes& types, double flops) {
  const double results = std::max(1.0, static_cast<double>(types.output(0).num_elements()));
  const Shape& shape = types.output(0).shape;
  ProductShape product;
  if (IsConvolution(op)) {
    const ConvPorts ports = PortsOf(op, types);
    const double groups = std::max(
        1.0, static_cast<double>(ports.image.shape[1]) / std::max(1.0, static_cast<double>(ports.weight.shape[1])));
    product.count = groups;
    product.n = (op.name == "conv_grad_weight" ? results / static_cast<double>(shape[0])
                                               : static_cast<double>(shape[1]) / groups);
    product.m = results / groups / product.n;
  } else {
    product.n = shape.rank() > 0 ? static_cast<double>(shape[shape.rank() - 1]) : 1;
    const bool batched = op.name == "matmul" && shape.rank() > 2;
    product.m = batched ? static_cast<double>(shape[shape.rank() - 2]) : results / product.n;
    product.count = results / product.n / product.m;
  }
  product.k = std::max(1.0, flops / 2 / results);
  return product;
}

bool AlignedForTensorCores(const NodeTypes& types) {
  const auto aligned = [](const ValueType& type) {
    const int rank = type.shape.rank();
    return rank < 2 || type.shape[rank - 1] * SizeOf(type.dtype) % 16 == 0;
  };
  for (int i = 0; i < types.num_inputs(); ++i) {
    if (types.has_input(i) && !aligned(types.input(i))) return false;
  }
  return aligned(types.output(0));
}

}  // namespace snug::core
