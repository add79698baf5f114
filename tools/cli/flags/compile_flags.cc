#include "tools/cli/flags/compile_flags.h"

#include <absl/strings/str_cat.h>

#include <cstdio>

#include "engine/base/max_threads.h"
#include "tools/cli/flags/run_flags.h"

namespace snug::core::cli {

void CompileFlags::AddTo(Flags& flags) {
  AddDeviceFlag(flags, &device);
  flags.Add("batch", &batch, absl::StrCat("samples in a step; default: ", batch_otherwise), 1);
  flags.Add(
      "threads", &threads,
      "threads of each op; default: every processor, or where --streams run ops side by side, each stream's share "
      "of them",
      1, kMaxThreads);
  flags.Add("precision", &precision,
            "float32 (default), bfloat16 (with float32 parameters, without --stochastic-rounding) or float64");
  flags.Add("stochastic-rounding", &stochastic_rounding,
            "in bfloat16: parameters and what optimizers keep are bfloat16 too, rounded up or down at random; default "
            "false");
  flags.Add("disable-passes", &disabled_passes, "compiler passes to leave out, by name");
  flags.Add(
      "loops", &loops,
      "which loops stay one node, whose body is compiled once: by-size (default; those with more than 2000 nodes in "
      "all their rounds, and those that compute rounds anew), rolled (all; on the CPU only) or unrolled (none, as "
      "always on a GPU); the bits are the same, with few exceptions (docs/model_files.md)");
  flags.Add(
      "recompute-rounds", &recompute_rounds,
      "of loops that are trained and stay one node: keeps for gradients what is carried, every so many rounds, and "
      "computes the rounds between anew (the last chunk of them may be shorter); -1: about the square root of their "
      "number; default 0: keeps all",
      -1);
  flags.Add(
      "stash-limit", &stash_limit,
      "size such as 500MB or 8GiB: the most that loops keep of their rounds for gradients, in all; where it is "
      "less than all of it, rounds are computed anew, of as few loops and in chunks as long as fit; of loops inside "
      "others only where nothing else fits, and about the square root of their rounds at a time; default: none");
  flags.Add("tf32", &tf32,
            "on a GPU: products and convolutions of float32 values round their factors to TF32's 10 bits of mantissa, "
            "which tensor cores take; default false");
  flags.Add(
      "fast", &fast,
      "on a GPU: gradients of convolutions may add in another sequence, with other bits, each time; what runs them "
      "says which, as does `snug compile`; default false");
  flags.Add("split-products", &split_products,
            "on a CPU with AMX: large products of float32 matrices, and convolutions of 1 x 1 taps, are sums of six "
            "products of their pieces in bfloat16, "
            "which is faster and as exact, but for infinities, numbers from 3.39e38 on, and numbers and products below "
            "1e-31; other last bits; default false");
  flags.Add("plain-kernels", &plain_kernels,
            "the reference kernels, which are slow; on a GPU: Snug's own, none of cuBLASLt or cuDNN");
  flags.Add("tuning", &tuning,
            "what `snug tune` found to be fastest on this machine: kernels, passes, and --threads unless it is given");
  flags.Add("keep-inputs", &keep_inputs, "what is fed stays for the next step; default: its bytes are used again");
  AddLessMemoryTo(flags);
}

void CompileFlags::AddLessMemoryTo(Flags& flags) {
  flags.Add(
      "update-as-made", &update_as_made,
      "on the CPU, training: gradients of large dense weights and tables are made in blocks of rows that their "
      "updates use at once, so that the whole gradient takes no memory, also where sums have other last bits then; "
      "default: only where they have the same");
  flags.Add("sparse-tables", &sparse_tables,
            "on the CPU, training: tables of embeddings, patterns of names, whose updates leave the rows alone that a "
            "step did not look up, whatever the optimizer does to them otherwise; !x: the gradient of x is whole; "
            "default: rows are left alone where that gives the same bits (sgd, adagrad without decay)");
  flags.Add("recompute-sweeps", &recompute_sweeps,
            "on the CPU, training: batch norm, layer norm, activations and pooling are computed again for the backward "
            "pass where what they are made of stays in any case; default false");
  flags.Add("gradients-from-outputs", &gradients_from_outputs,
            "on the CPU, training: the gradients of layer norm, gelu, and batch norm without an activation come from "
            "what these "
            "gave, where what they were given would be kept for them alone; equal to rounding, and an error where a "
            "norm's weight "
            "is too small beside its bias; default false");
  flags.Add(
      "loss-in-blocks", &loss_in_blocks,
      "on the CPU, training: the last dense layer, its softmax_cross_entropy and their gradients are done in blocks "
      "of 256 rows, so that the logits of all rows are never there; equal to rounding; default false");
  flags.Add(
      "half-byte-indices", &half_byte_indices,
      "on the CPU, training: the indices that max pooling keeps for its gradient are two to a byte, of windows of at "
      "most 16 elements and 16, 32, ... channels side by side; the same bits; default false");
}

void CompileFlags::AddKeepDerivedTo(Flags& flags) {
  flags.Add("keep-derived", &keep_derived,
            "on the CPU, forward only: what follows from the weights alone (packed weights, batch norm within "
            "convolutions) is "
            "computed once and kept, which is faster and takes memory; default: in every step");
}

void CompileFlags::AddOnlyTo(Flags& flags) {
  flags.Add("only", &only, "forward only: what is computed, by name, and nothing else; default: all outputs");
}

absl::Status CompileFlags::CheckForwardOnly(bool forward) const {
  if (forward || (!keep_derived && only.empty())) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("--", keep_derived ? "keep-derived" : "only",
                                                 " is for the forward pass alone: expected --forward beside it"));
}

absl::StatusOr<CompileOptions> CompileFlags::Options(int64_t streams) const {
  std::string without_fusion;
  absl::StatusOr<CompileOptions> options =
      SettleCompile(*this, streams, OptionPlaces::OnCommandLine(), &without_fusion);
  if (!without_fusion.empty()) std::fprintf(stderr, "without the pass fuse_elementwise: %s\n", without_fusion.c_str());
  return options;
}

}  // namespace snug::core::cli
