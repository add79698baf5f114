// Adds up sums of many terms as their terms are made: add_n of T terms, such as the gradient of filters that are tied
// in T layers, becomes a chain of sums of a few, each of which takes the sum before it and the terms that
// were made since. So a few terms stand together, not all of them, and CUDA's sums, whose terms are a kernel's
// arguments, have no more than it takes.
//
// Terms are taken in the sequence in which they are made, for gradients that of the backward pass, and not in that of
// the sum: what was made first would otherwise be held until all are there. That sequence is chosen while loops are
// nodes still (SequenceSums), and kept afterwards: in the straight line of a loop's rounds, what a body was given
// is made here and there, and another sequence would have other last bits than the loop.
#include <absl/algorithm/container.h>
#include <absl/strings/str_cat.h>

#include <cstdint>
#include <utility>
#include <vector>

#include "engine/base/status.h"
#include "engine/compile/passes/pass.h"
#include "ops/graph_builder.h"

namespace snug::core {
namespace {

// A chain of sums of k terms reads and writes (k + 1) / (k - 1) arrays for each term, one sum of all of them one array:
// with 8 a quarter more.
constexpr size_t kMostTerms = 8;

bool HasManyTerms(const Node& node) { return node.op == "add_n" && node.inputs.size() > kMostTerms; }

// Where in the graph's order each value is made: -1 for what no node makes.
class WhenMade {
 public:
  explicit WhenMade(const Graph& graph) : graph_(graph), position_(graph.node_capacity()) {
    int64_t position = 0;
    for (const NodeId id : graph.ProgramOrder()) position_[static_cast<size_t>(id.index)] = position++;
  }

  int64_t operator()(ValueId value) const {
    const NodeId producer = graph_.value(value).producer;
    return producer.valid() ? position_[static_cast<size_t>(producer.index)] : -1;
  }

 private:
  const Graph& graph_;
  std::vector<int64_t> position_;
};

}  // namespace

absl::Status SequenceSums(Graph& graph, const OpRegistry& /*registry*/) {
  const WhenMade made(graph);
  for (const NodeId id : graph.ProgramOrder()) {
    if (!HasManyTerms(graph.node(id))) continue;
    std::vector<ValueId> terms = graph.node(id).inputs;
    absl::c_stable_sort(terms, [&](ValueId a, ValueId b) { return made(a) < made(b); });
    graph.node(id).inputs = std::move(terms);
  }
  return absl::OkStatus();
}

absl::Status AccumulateSums(Graph& graph, const OpRegistry& registry) {
  const WhenMade made(graph);
  GraphBuilder builder(registry, &graph);
  for (const NodeId id : graph.ProgramOrder()) {
    if (!HasManyTerms(graph.node(id))) continue;
    const std::vector<ValueId> terms = graph.node(id).inputs;
    std::vector<ValueId> together;
    ValueId last = terms[0];  // to be made, of those so far
    for (size_t i = 0; i < terms.size(); ++i) {
      together.push_back(terms[i]);
      if (made(terms[i]) > made(last)) last = terms[i];
      if (together.size() < kMostTerms || i + 1 == terms.size()) continue;
      // Right behind the last of the terms, so that the order as given has few of them too.
      const NodeId producer = graph.value(last).producer;
      const Node& sum = graph.node(id);
      SNUG_ASSIGN_OR_RETURN(
          together,
          builder.AddBefore(producer.valid() ? graph.node(producer).next : id, sum,
                            {.name = absl::StrCat(sum.name, "/first:", i + 1), .op = "add_n", .inputs = together}));
    }
    graph.node(id).inputs = together;
  }
  return absl::OkStatus();
}

}  // namespace snug::core
