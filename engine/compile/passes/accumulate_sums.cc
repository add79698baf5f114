// Adds up sums of many terms as their terms are made: add_n of T terms, such as the gradient of filters that are tied
// in T layers, becomes a chain of sums of a few, each of which takes the sum before it and the terms that
// were made since. So a few terms stand together, not all of them, and CUDA's sums, whose terms are a kernel's
// arguments, have no more than it takes.
//
// Terms are taken in the sequence in which they are made, for gradients that of the backward pass, and not in that of
// the sum: what was made first would otherwise be held until all are there.
#include <absl/strings/str_cat.h>

#include <algorithm>
#include <vector>

#include "engine/base/status.h"
#include "engine/compile/passes/pass.h"
#include "ops/graph_builder.h"

namespace snug::core {
namespace {

// A chain of sums of k terms reads and writes (k + 1) / (k - 1) arrays for each term, one sum of all of them one array:
// with 8 a quarter more.
constexpr size_t kMostTerms = 8;

}  // namespace

absl::Status AccumulateSums(Graph& graph, const OpRegistry& registry) {
  const std::vector<NodeId> order = graph.ProgramOrder();
  std::vector<int64_t> position(graph.node_capacity());
  for (size_t i = 0; i < order.size(); ++i) position[static_cast<size_t>(order[i].index)] = static_cast<int64_t>(i);
  GraphBuilder builder(registry, &graph);
  for (const NodeId id : order) {
    if (graph.node(id).op != "add_n" || graph.node(id).inputs.size() <= kMostTerms) continue;
    const auto made = [&](ValueId term) {
      const NodeId producer = graph.value(term).producer;
      return producer.valid() ? position[static_cast<size_t>(producer.index)] : -1;
    };
    std::vector<ValueId> terms = graph.node(id).inputs;
    std::stable_sort(terms.begin(), terms.end(), [&](ValueId a, ValueId b) { return made(a) < made(b); });
    std::vector<ValueId> together;
    for (size_t i = 0; i < terms.size(); ++i) {
      together.push_back(terms[i]);
      if (together.size() < kMostTerms || i + 1 == terms.size()) continue;
      // Right behind the last of the terms, so that the order as given has few of them too.
      const NodeId last = graph.value(terms[i]).producer;
      graph.SetInsertionPoint(last.valid() ? graph.node(last).next : id);
      const Node& sum = graph.node(id);
      SNUG_ASSIGN_OR_RETURN(const NodeId part, builder.Add({.name = absl::StrCat(sum.name, "/first:", i + 1),
                                                            .op = "add_n",
                                                            .inputs = together,
                                                            .loc = sum.loc,
                                                            .phase = sum.phase,
                                                            .forward = sum.forward}));
      graph.SetInsertionPoint(NodeId());
      together = {graph.node(part).outputs[0]};
    }
    graph.node(id).inputs = together;
  }
  return absl::OkStatus();
}

}  // namespace snug::core
