// What eager PyTorch would ask its allocator for in a step of the same network: ops forward in the order of the file,
// keeping what autograd keeps (saved_tensors.h); backward in the reverse order, gradients added up in place;
// parameters' gradients kept for the optimizer, which runs last. Nothing is executed: it is there to be compared with.
//
// It is told as float32 on a GPU, and, wherever programs differ, as the one that needs less:
//   * A tensor is dropped with its last reader, though a caller's variables often hold it for longer.
//   * relu and sums are written in place where autograd allows it.
//   * Attention and layer norm are the fused ones; attention takes views of q, k and v.
//   * Gradients are dropped before the next step (`zero_grad`), and the optimizer is fused: it has no tensors of its
//   own
//     but its slots, which are there from the start.
//   * Convolutions and products need no workspace. cuDNN and cuBLAS do.
#pragma once

#include <absl/status/statusor.h>

#include "engine/graph/graph.h"
#include "memory/allocator/caching.h"
#include "ops/registry.h"

namespace snug::core {

// `graph` is the network as imported: only the forward pass, loops unrolled, before any pass. `variables` are those of
// the finished graph, with the optimizer's slots. Fails with Unimplemented for an op that saved_tensors.cc lacks, and
// for networks that are not in float32.
absl::StatusOr<memory::Requests> EagerStep(const Graph& graph, const std::vector<Variable>& variables, bool training);

}  // namespace snug::core
