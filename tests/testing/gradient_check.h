// An op's gradient against central differences of its plain double kernel.
//
// The objective is a random-weighted sum of the op's floating outputs: its gradient with respect to an output is just
// the weights, which enter the graph as inputs, and the op's own `gradient` adds the rest.
#pragma once

#include <absl/status/statusor.h>

#include <map>
#include <string>
#include <vector>

#include "engine/graph/graph.h"
#include "ops/registry.h"
#include "ops/sample_builder.h"
#include "tests/testing/graph_evaluator.h"

namespace snug::core::test {

// One node of the sample, its inputs, and its gradient.
struct GradientGraph {
  Graph graph;
  std::vector<ValueId> inputs;        // invalid: absent
  std::vector<ValueId> outputs;       // of the node
  std::vector<ValueId> output_grads;  // graph inputs; invalid: nothing flows back there
  std::vector<ValueId> input_grads;   // invalid: not wanted, or no path
};

// Which floating inputs of the sample have a gradient that the check can ask for, and which outputs it can weight.
std::vector<bool> DifferentiableInputs(const OpDef& op, const Sample& sample, const NodeTypes& types);
std::vector<bool> DifferentiableOutputs(const OpDef& op, const NodeTypes& types);

// `types` as inferred for the sample.
absl::StatusOr<GradientGraph> BuildGradientGraph(const OpRegistry& registry, const OpDef& op, const Sample& sample,
                                                 const NodeTypes& types, const std::vector<bool>& wanted_inputs,
                                                 const std::vector<bool>& weighted_outputs);

// Numbers for the graph's inputs: the sample's values, and weights in [-1, 1).
std::map<ValueId, Tensor> FeedsOf(const GradientGraph& gradient, const OpDef& op, const Sample& sample,
                                  const NodeTypes& types);

// The gradients of the inputs, zeros where there is no path; empty where none is wanted.
absl::StatusOr<std::vector<Tensor>> EvaluateGradient(const OpRegistry& registry, const GradientGraph& gradient,
                                                     const std::map<ValueId, Tensor>& feeds, KernelChoice choice);

// Every difference found, one text each: input, element, expected, found. `layout`: of the inputs of full rank.
std::vector<std::string> CheckGradient(const OpRegistry& registry, const OpDef& op, const Sample& sample,
                                       const Layout& layout);

}  // namespace snug::core::test
