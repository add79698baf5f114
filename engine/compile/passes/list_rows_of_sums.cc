// The gradient of a table that both lookups and another layer read (a text model's words, which its last layer reads as
// weights) is a sum in which the lookups' terms are arrays of the table's shape, nearly all zeros. They become lists of
// rows (embedding_grad_rows), which are added to the other layer's gradient where it lies:
//
//   add_n(embedding_grad(ids, dy), other)  ->  add_listed_rows(other, embedding_grad_rows(ids, dy))
//
// A table of which lookups alone read has its rows updated alone, where the optimizer allows it, and no sum
// (differentiate/row_gradients.h). Here nothing depends on the optimizer. The terms are added in the sequence of the
// sum, so the bits are the same, but for the signs of zeros: 0 + -0 is 0, and here nothing is added. In bfloat16 sums
// of more than two terms are rounded once, which steps cannot give; nothing is changed there.
#include <absl/algorithm/container.h>
#include <absl/strings/str_cat.h>

#include <utility>
#include <vector>

#include "engine/base/status.h"
#include "engine/compile/passes/matching.h"
#include "engine/compile/passes/pass.h"
#include "ops/graph_builder.h"

namespace snug::core {
namespace {

// A sum so far: an array or a list of rows.
struct Partial {
  ValueId whole;
  ValueId numbers, rows;
};

class Sums {
 public:
  Sums(Graph& graph, const OpRegistry& registry)
      : graph_(graph), builder_(registry, &graph), surroundings_(graph), known_(graph.value_capacity()) {}

  absl::Status Run() {
    for (const NodeId id : graph_.ProgramOrder()) {
      if (graph_.node(id).op == "add_n" && Pays(graph_.node(id))) SNUG_RETURN_IF_ERROR(Rewrite(id));
    }
    return absl::OkStatus();
  }

 private:
  bool IsLookup(ValueId term) const {
    const NodeId producer = graph_.value(term).producer;
    return producer.valid() && graph_.node(producer).op == "embedding_grad";
  }

  // Whether there are terms of both kinds that nobody else needs, and lists are smaller than what they replace.
  bool Pays(const Node& sum) const {
    const ValueType& type = graph_.type(sum.outputs[0]);
    if (type.dtype == DType::kBFloat16) return false;
    int64_t listed = 0;
    int lookups = 0;
    for (const ValueId term : sum.inputs) {
      if (static_cast<size_t>(term.index) >= known_ || !surroundings_.SoleReader(term).valid() ||
          graph_.value(term).variable.valid())
        return false;
      if (!IsLookup(term)) continue;
      const Node& lookup = graph_.node(graph_.value(term).producer);
      listed += graph_.type(lookup.inputs[1]).size_bytes();
      ++lookups;
    }
    if (lookups == 0 || lookups == static_cast<int>(sum.inputs.size())) return false;
    return 2 * listed < type.size_bytes();
  }

  absl::StatusOr<std::vector<ValueId>> Add(const Node& like, absl::string_view suffix, std::string op,
                                           std::vector<ValueId> inputs, Options options = Options()) {
    SNUG_ASSIGN_OR_RETURN(const NodeId node, builder_.Add({.name = absl::StrCat(like.name, suffix),
                                                           .op = std::move(op),
                                                           .options = std::move(options),
                                                           .inputs = std::move(inputs),
                                                           .loc = like.loc,
                                                           .phase = like.phase,
                                                           .forward = like.forward}));
    return graph_.node(node).outputs;
  }

  absl::StatusOr<Partial> List(NodeId lookup, NodeId sum) {
    const Node node = graph_.node(lookup);
    graph_.SetInsertionPoint(lookup);  // where its dy lives anyway
    const auto made = Add(node, "_rows", "embedding_grad_rows", node.inputs, node.options);
    graph_.SetInsertionPoint(sum);
    SNUG_RETURN_IF_ERROR(made.status());
    return Partial{.numbers = (*made)[0], .rows = (*made)[1]};
  }

  absl::StatusOr<Partial> Plus(const Node& sum, const Partial& a, const Partial& b) {
    if (a.whole.valid() && b.whole.valid()) {
      SNUG_ASSIGN_OR_RETURN(const std::vector<ValueId> added, Add(sum, "", sum.op, {a.whole, b.whole}, sum.options));
      return Partial{.whole = added[0]};
    }
    if (!a.whole.valid() && !b.whole.valid()) {
      SNUG_ASSIGN_OR_RETURN(const std::vector<ValueId> added,
                            Add(sum, "_rows", "add_rows", {a.numbers, a.rows, b.numbers, b.rows}));
      return Partial{.numbers = added[0], .rows = added[1]};
    }
    const Partial& list = a.whole.valid() ? b : a;
    SNUG_ASSIGN_OR_RETURN(
        const std::vector<ValueId> added,
        Add(sum, "", "add_listed_rows", {a.whole.valid() ? a.whole : b.whole, list.numbers, list.rows}));
    return Partial{.whole = added[0]};
  }

  absl::Status Rewrite(NodeId id) {
    const Node sum = graph_.node(id);
    graph_.SetInsertionPoint(id);
    Partial total;
    std::vector<NodeId> lookups;
    for (const ValueId term : sum.inputs) {
      Partial next{.whole = term};
      if (IsLookup(term)) {
        lookups.push_back(graph_.value(term).producer);
        SNUG_ASSIGN_OR_RETURN(next, List(lookups.back(), id));
      }
      if (term == sum.inputs.front()) {
        total = next;
        continue;
      }
      SNUG_ASSIGN_OR_RETURN(total, Plus(sum, total, next));
    }
    graph_.SetInsertionPoint(NodeId());
    graph_.ReplaceUses(sum.outputs[0], total.whole);
    graph_.RemoveNode(id);
    for (const NodeId lookup : lookups) graph_.RemoveNode(lookup);
    return absl::OkStatus();
  }

  Graph& graph_;
  GraphBuilder builder_;
  const Surroundings surroundings_;  // of the graph as it was
  const size_t known_;               // so many values it had
};

}  // namespace

absl::Status ListRowsOfSums(Graph& graph, const OpRegistry& registry) { return Sums(graph, registry).Run(); }

}  // namespace snug::core
