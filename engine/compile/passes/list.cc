#include "engine/compile/passes/pass.h"

namespace snug::core {

// Each is in a file of its own.
PassFunction AccumulateSums, AddInConvolution, AssignLayouts, FindRecurrentCells, FoldBatchNorm, FoldConstants,
    FuseActivation, FuseBatchNorm, FuseBatchNormSilu, FuseCrossEntropy, FuseElementwise, FuseGelu, FuseReluGradient,
    FuseSlopes, GateFromOutput, GradientsFromOutputs, HalfByteIndices, HoistLoopInputs, JoinDepthwise, ListRowsOfSums,
    JoinSlices, LossInBlocks, LossWithGradient, MeasureInConvolution, MergeCommonSubexpressions, NarrowGradients,
    PackAttention, PadClasses, PoolAfterMask, RecomputeSweeps, RemoveDeadCode, SequenceSums, StackWeightGradients,
    SumBiasGradient, SumInConvolution, UpdateAsMade, UpdateAsMadeExactly;

absl::Span<const Pass> LoopPasses() {
  static constexpr Pass kPasses[] = {
      {"hoist_loop_inputs", "what a loop's rounds do to their slices alone is done before the loop, to all at once",
       HoistLoopInputs},
  };
  return kPasses;
}

absl::Span<const Pass> CellPasses() {
  static constexpr Pass kPasses[] = {
      {"recurrent_cells", "what LSTM and GRU cells do element by element, forward and backward, in one sweep",
       FindRecurrentCells},
  };
  return kPasses;
}

absl::Span<const Pass> ForwardPasses() {
  static constexpr Pass kPasses[] = {
      {"fuse_cross_entropy", "log_softmax + nll_loss -> softmax_cross_entropy", FuseCrossEntropy},
      {"pack_attention", "split + attention -> packed_attention, which reads q, k and v where they are", PackAttention},
  };
  return kPasses;
}

absl::Span<const Pass> KeepingPasses() {
  static constexpr Pass kPasses[] = {
      {"fold_batch_norm", "batch norm of running statistics goes into the weights of the layer before it",
       FoldBatchNorm},
  };
  return kPasses;
}

absl::Span<const Pass> SequencePasses() {
  static constexpr Pass kPasses[] = {
      {"sequence_sums", "sums of many terms take them in the sequence in which they are made", SequenceSums},
  };
  return kPasses;
}

absl::Span<const Pass> GradientPasses() {
  static constexpr Pass kPasses[] = {
      {"stack_weight_gradients", "the gradients of a weight that is read many times are one product of all rows",
       StackWeightGradients},
      {"accumulate_sums", "sums of many terms are added up as the terms are made", AccumulateSums},
  };
  return kPasses;
}

absl::Span<const Pass> ProcessorPasses() {
  static constexpr Pass kPasses[] = {
      {"pool_after_mask", "relu's gradient behind max pooling goes by what pooling gave, not by what it was given",
       PoolAfterMask},
      {"list_rows_of_sums", "of a sum of gradients, those that lookups in a table give are lists of rows",
       ListRowsOfSums},
      {"fuse_batch_norm_silu", "batch norm + silu, forward and backward, in one sweep", FuseBatchNormSilu},
      {"gate_from_output", "the gradient of a sigmoid gate comes from the product, not from what is gated",
       GateFromOutput},
  };
  return kPasses;
}

absl::Span<const Pass> WholePasses() {
  static constexpr Pass kPasses[] = {
      {"dead_code", "nodes that reach no output and mutate nothing go", RemoveDeadCode},
      {"common_subexpressions", "nodes that compute the same from the same are merged", MergeCommonSubexpressions},
      {"constant_folding", "nodes that read constants only are computed now", FoldConstants},
      {"join_slices", "the gradients of a value's slices are joined, not padded with zeros and added", JoinSlices},
      {"fuse_batch_norm", "batch norm (+ add) + relu or relu6, forward and backward, in one sweep", FuseBatchNorm},
      {"fuse_activation", "convolution or dense + activation in one sweep", FuseActivation},
      {"channels_last", "images lie channels-last where kernels prefer it", AssignLayouts,
       /*enters_bodies=*/true},
      {"narrow_gradients", "updates read bfloat16 gradients, not float32 copies of them", NarrowGradients},
      {"dead_code_again", "what the other passes left without readers goes", RemoveDeadCode},
  };
  return kPasses;
}

absl::Span<const Pass> LossPasses() {
  static constexpr Pass kPasses[] = {
      {"loss_in_blocks", "the last dense layer, its cross-entropy and all their gradients are done in blocks of rows",
       LossInBlocks},
  };
  return kPasses;
}

absl::Span<const Pass> RecomputingPasses() {
  static constexpr Pass kPasses[] = {
      {"recompute_sweeps", "batch norm, activations, pooling and the like are computed again for the backward pass",
       RecomputeSweeps},
  };
  return kPasses;
}

absl::Span<const Pass> OutputPasses() {
  static constexpr Pass kPasses[] = {
      {"gradients_from_outputs", "the gradients of norms and gelu come from what these gave, which stays anyway",
       GradientsFromOutputs},
  };
  return kPasses;
}

absl::Span<const Pass> IndexPasses() {
  static constexpr Pass kPasses[] = {
      {"half_byte_indices", "the indices that max pooling keeps for its gradient are two to a byte", HalfByteIndices},
  };
  return kPasses;
}

absl::Span<const Pass> LastProcessorPasses() {
  static constexpr Pass kPasses[] = {
      {"fuse_slopes", "large dense_grad_input + relu_grad or gelu_grad -> one node, which multiplies by the slope",
       FuseSlopes},
      {"update_as_made_exactly", "update_as_made, where blocks of rows give the bits of the whole gradient",
       UpdateAsMadeExactly},
      {"measure_in_convolution", "convolutions take the mean and variance of their results for the batch norm behind",
       MeasureInConvolution},
      {"sum_in_convolution",
       "the gradients of convolutions' data take the sums of the batch norm's gradient behind them", SumInConvolution},
  };
  return kPasses;
}

absl::Span<const Pass> PassesAsMade() {
  static constexpr Pass kPasses[] = {
      {"update_as_made", "a large gradient + its update -> one node, which makes and uses it in blocks of rows",
       UpdateAsMade},
  };
  return kPasses;
}

absl::Span<const Pass> LastKeepingPasses() {
  static constexpr Pass kPasses[] = {
      {"join_depthwise", "a depthwise convolution and those around it, + shortcut -> depthwise_block, done in strips",
       JoinDepthwise},
      {"add_in_convolution", "convolution of 1 x 1 taps + add + activation -> conv_add, in one sweep",
       AddInConvolution},
  };
  return kPasses;
}

absl::Span<const Pass> CudaPasses() {
  static constexpr Pass kPasses[] = {
      {"pad_classes", "rows of bfloat16 logits that tensor cores cannot read begin at multiples of 128 bytes",
       PadClasses},
      {"loss_with_gradient", "softmax_cross_entropy, its gradient and the test of the loss are one node",
       LossWithGradient},
      {"sum_bias_gradient", "the gradient of a dense layer's bias comes with that of its weights", SumBiasGradient},
      {"fuse_gelu", "dense + gelu -> dense_gelu, where the gradient needs what is before gelu", FuseGelu},
      {"fuse_elementwise",
       "chains of elementwise nodes, with a reduction at the end or without, become a kernel that NVRTC compiles",
       FuseElementwise},
      {"fuse_relu_gradient", "small dense_grad_input + relu_grad -> dense_grad_input_relu", FuseReluGradient},
  };
  return kPasses;
}

}  // namespace snug::core
