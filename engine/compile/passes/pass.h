// A pass is a function that changes the Graph. passes/list.cc declares it and lists it with its name, by which it can
// be switched off. With or without it, training gives the same up to rounding.
#pragma once

#include <absl/status/status.h>
#include <absl/types/span.h>

#include "engine/graph/graph.h"
#include "ops/registry.h"

namespace snug::core {

using PassFunction = absl::Status(Graph& graph, const OpRegistry& registry);

struct Pass {
  absl::string_view name;
  absl::string_view doc;
  PassFunction* run;
  bool enters_bodies = false;  // it changes the bodies of loops too; otherwise it is run on each, as on any graph
};

// These are in the order in which they run: on the network whose loops are not unrolled yet, the first of them only if
// no rounds are to be computed anew; on the forward graph before it is differentiated; on the graph with gradients, if
// it is trained, before its loops are unrolled; on the graph with updates, too, then; on the graph of programs that
// keep what follows from Variables; on the graph that is trained on the CPU; on every whole graph; on that one where
// the loss is in blocks; where sweeps are done again; where gradients come from outputs; where indices are half bytes;
// where it is trained on the CPU by other than plain kernels; where gradients are used as they are made; where the
// program keeps what follows from Variables; and where it is compiled for CUDA.
absl::Span<const Pass> LoopPasses();
absl::Span<const Pass> CellPasses();
absl::Span<const Pass> ForwardPasses();
absl::Span<const Pass> SequencePasses();
absl::Span<const Pass> GradientPasses();
absl::Span<const Pass> KeepingPasses();
absl::Span<const Pass> ProcessorPasses();
absl::Span<const Pass> WholePasses();
absl::Span<const Pass> LossPasses();
absl::Span<const Pass> RecomputingPasses();
absl::Span<const Pass> OutputPasses();
absl::Span<const Pass> IndexPasses();
absl::Span<const Pass> LastProcessorPasses();
absl::Span<const Pass> PassesAsMade();
absl::Span<const Pass> LastKeepingPasses();
absl::Span<const Pass> CudaPasses();

}  // namespace snug::core
