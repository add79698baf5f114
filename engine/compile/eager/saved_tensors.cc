#include "engine/compile/eager/saved_tensors.h"

#include <algorithm>
#include <iterator>

namespace snug::core {
namespace {

using enum EagerOp::Output;
using Gradient = EagerOp::Gradient;
constexpr uint32_t kX = EagerOp::kFirst, kSecond = EagerOp::kSecond, kThird = EagerOp::kThird,
                   kFourth = EagerOp::kFourth, kY = EagerOp::kFirst, kAll = EagerOp::kAll;
constexpr int64_t kFloat = 4;  // bytes of an element

// Sorted by name.
constexpr EagerOp kOps[] = {
    {.name = "abs", .inputs_kept = kX},
    {.name = "absolute_error", .inputs_kept = kX | kSecond},
    {.name = "accuracy"},
    {.name = "adaptive_avg_pool", .inputs_kept = kX},
    {.name = "adaptive_max_pool"},
    {.name = "adaptive_max_pool_indices", .inputs_kept = kX, .outputs_kept = kSecond},
    {.name = "add", .output = kInPlace, .gradient = Gradient::kPass},
    {.name = "add_n", .output = kInPlace, .gradient = Gradient::kPass},
    {.name = "argmax"},
    {.name = "attention", .inputs_kept = kX | kSecond | kThird | kFourth, .outputs_kept = kY | kSecond},
    {.name = "avg_pool", .inputs_kept = kX},
    {.name = "batch_norm", .inputs_kept = kX | kSecond, .outputs_kept = kSecond | kThird},
    {.name = "batch_norm_inference", .inputs_kept = kX | kSecond | kFourth | 16},
    {.name = "bias_add", .output = kInPlace, .gradient = Gradient::kPass, .passed = kX},
    {.name = "binary_cross_entropy", .inputs_kept = kX | kSecond},
    {.name = "binary_cross_entropy_with_logits", .inputs_kept = kX | kSecond},
    {.name = "broadcast_to", .output = kView},
    {.name = "cast"},
    {.name = "choose", .inputs_kept = kX},
    {.name = "clip", .inputs_kept = kX},
    {.name = "compare"},
    {.name = "concat", .gradient = Gradient::kPass},
    {.name = "constant"},
    {.name = "conv", .inputs_kept = kX | kSecond, .crosswise = true},
    {.name = "conv_grad_input", .inputs_kept = kX | kSecond, .crosswise = true},
    {.name = "cos", .inputs_kept = kX},
    {.name = "cosine_similarity_loss", .inputs_kept = kX | kSecond},
    {.name = "cumsum"},
    {.name = "dense", .inputs_kept = kX | kSecond, .crosswise = true},
    {.name = "div", .inputs_kept = kX | kSecond},
    {.name = "dropout", .more_kept = 1},  // a mask of bool
    {.name = "elu", .inputs_kept = kX},
    {.name = "embedding", .inputs_kept = kX},
    {.name = "exp", .outputs_kept = kY},
    {.name = "fill"},
    {.name = "flatten", .output = kView, .gradient = Gradient::kPass},
    {.name = "flip"},
    {.name = "floor"},
    {.name = "gate", .inputs_kept = kSecond, .output = kView},
    {.name = "gather", .inputs_kept = kSecond},
    {.name = "gelu", .inputs_kept = kX},
    {.name = "global_avg_pool"},
    {.name = "global_max_pool"},
    {.name = "global_max_pool_indices", .inputs_kept = kX, .outputs_kept = kSecond},
    {.name = "group_norm", .inputs_kept = kX | kSecond, .outputs_kept = kSecond | kThird},
    {.name = "hard_sigmoid", .inputs_kept = kX},
    {.name = "hard_swish", .inputs_kept = kX},
    {.name = "hard_tanh", .inputs_kept = kX},
    {.name = "huber", .inputs_kept = kX | kSecond},
    {.name = "huber_loss", .inputs_kept = kX | kSecond},
    {.name = "keep", .inputs_kept = kX},
    {.name = "kl_divergence", .inputs_kept = kX | kSecond},
    {.name = "kl_divergence_parts", .inputs_kept = kX | kSecond},
    {.name = "l1_loss", .inputs_kept = kX | kSecond},
    {.name = "layer_norm", .inputs_kept = kX | kSecond, .outputs_kept = kSecond | kThird},
    {.name = "leaky_relu", .inputs_kept = kX},
    // The square of x, the base of the power, and the power.
    {.name = "local_response_norm", .inputs_kept = kX, .more_kept = 3 * kFloat},
    {.name = "log", .inputs_kept = kX},
    {.name = "log_softmax", .outputs_kept = kY},
    {.name = "matmul", .inputs_kept = kX | kSecond, .crosswise = true},
    {.name = "max", .inputs_kept = kX | kSecond},
    {.name = "max_pool"},
    {.name = "max_pool_indices", .inputs_kept = kX, .outputs_kept = kSecond},
    {.name = "mean_squared_error", .inputs_kept = kX | kSecond},
    {.name = "min", .inputs_kept = kX | kSecond},
    {.name = "mish", .inputs_kept = kX},
    {.name = "mul", .inputs_kept = kX | kSecond, .crosswise = true},
    {.name = "neg"},
    {.name = "nll_loss", .inputs_kept = kX | kSecond},
    {.name = "one_hot"},
    {.name = "pad"},
    {.name = "pixel_shuffle"},
    {.name = "pixel_unshuffle"},
    {.name = "pow", .inputs_kept = kX | kSecond, .outputs_kept = kY},
    {.name = "prelu", .inputs_kept = kX | kSecond},
    {.name = "reduce_max", .inputs_kept = kX, .outputs_kept = kY},
    {.name = "reduce_mean"},
    {.name = "reduce_sum", .output = kOwn, .gradient = Gradient::kPass},
    {.name = "reduce_to_shape", .gradient = Gradient::kPass},
    {.name = "relu", .outputs_kept = kY, .output = kInPlace},
    {.name = "relu6", .inputs_kept = kX},  // in place it keeps a clone of x, which is as much
    {.name = "reshape", .output = kView, .gradient = Gradient::kPass},
    {.name = "reshape_to", .output = kView, .gradient = Gradient::kPass},
    {.name = "rms_norm", .inputs_kept = kX | kSecond, .outputs_kept = kSecond},
    {.name = "scale"},
    {.name = "selu", .inputs_kept = kX},
    {.name = "sigmoid", .outputs_kept = kY},
    {.name = "sign"},
    {.name = "silu", .inputs_kept = kX},
    {.name = "sin", .inputs_kept = kX},
    {.name = "slice", .output = kView},
    {.name = "slice_grad"},
    {.name = "softmax", .outputs_kept = kY},
    // log_softmax, of which nll_loss and its own backward keep the result, and whose gradients are two tensors.
    {.name = "softmax_cross_entropy",
     .inputs_kept = kSecond,
     .more_kept = kFloat,
     .backward_scratch = kFloat,
     .per_input = true},
    {.name = "softplus", .inputs_kept = kX},
    {.name = "split", .output = kView},
    {.name = "sqrt", .outputs_kept = kY},
    {.name = "square", .inputs_kept = kX},
    {.name = "still_holds"},
    {.name = "stochastic_depth"},  // times a number for each sample
    {.name = "stop_gradient", .output = kView},
    {.name = "sub", .gradient = Gradient::kPass, .passed = kX},
    {.name = "tanh", .outputs_kept = kY},
    {.name = "tile"},
    {.name = "top_k", .outputs_kept = kSecond},
    {.name = "top_k_accuracy"},
    {.name = "transpose", .output = kView, .gradient = Gradient::kPass},
    {.name = "upsample"},
    {.name = "where", .inputs_kept = kX},
};

constexpr bool Sorted() {
  for (size_t i = 1; i < std::size(kOps); ++i) {
    if (!(kOps[i - 1].name < kOps[i].name)) return false;
  }
  return true;
}
static_assert(Sorted());

}  // namespace

const EagerOp* FindEagerOp(absl::string_view name) {
  const EagerOp* const end = std::end(kOps);
  const EagerOp* const found =
      std::lower_bound(std::begin(kOps), end, name, [](const EagerOp& op, absl::string_view n) { return op.name < n; });
  return found != end && found->name == name ? found : nullptr;
}

}  // namespace snug::core
