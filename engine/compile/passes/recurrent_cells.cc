// Makes one node of what an LSTM or a GRU does element by element in a step, however its layers were named: one sweep
// forward and one backward, in place of a dozen each. It looks for the cell in the bodies of loops, before they are
// unrolled:
//
//   sum = x + h; i, f, g, o = split(sum); c' = sigmoid(f) c + sigmoid(i) tanh(g); h' = sigmoid(o) tanh(c')
//     -> h', c' = lstm_cell(x, h, c)
//   n = tanh(x_n + r y_n); h' = n + z (h - n), with r = sigmoid(x_r + y_r), z = sigmoid(x_z + y_z),
//   of x_r, x_z, x_n = split(x) and y_r, y_z, y_n = split(y)
//     -> h' = gru_cell(x, y, h)
//
// Operands of sums and products may stand in either order, and the parts in any. Nothing between may be read by others.
// Where the LSTM's parts come from one value that is no sum, that is x, and there is no h.
#include <algorithm>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "engine/base/status.h"
#include "engine/compile/passes/matching.h"
#include "engine/compile/passes/pass.h"
#include "ops/graph_builder.h"
#include "proto/internal.pb.h"
#include "proto/network.pb.h"
#include "proto/options.h"

namespace snug::core {
namespace {

class CellFinder {
 public:
  CellFinder(const OpRegistry& registry, Graph* graph)
      : surroundings_(*graph), builder_(registry, graph), graph_(*graph) {}

  absl::Status Run() {
    for (const NodeId id : graph_.ProgramOrder()) {
      if (graph_.node(id).removed) continue;
      if (graph_.node(id).op == "split" && graph_.node(id).outputs.size() == 4) SNUG_RETURN_IF_ERROR(Lstm(id));
      if (graph_.node(id).op == "tanh") SNUG_RETURN_IF_ERROR(Gru(id));
    }
    return absl::OkStatus();
  }

 private:
  struct Pair {
    ValueId a, b;
  };

  const Node& node(NodeId id) const { return graph_.node(id); }
  ValueId OutputOf(NodeId id) const { return node(id).outputs[0]; }

  bool Is(NodeId id, absl::string_view op) const { return id.valid() && node(id).op == op; }
  NodeId Producer(ValueId value, absl::string_view op) const {
    const NodeId producer = value.valid() ? graph_.value(value).producer : NodeId();
    return Is(producer, op) ? producer : NodeId();
  }
  // The node of this op that alone reads a value; invalid: there is none.
  NodeId Reader(ValueId value, absl::string_view op) const {
    const NodeId reader = surroundings_.SoleReader(value);
    return Is(reader, op) ? reader : NodeId();
  }
  // The other operand of a node of two; invalid where both are the same, or are broadcast.
  ValueId Other(NodeId id, ValueId operand) const {
    const std::vector<ValueId>& inputs = node(id).inputs;
    const ValueId other = inputs[0] == operand ? inputs[1] : inputs[0];
    const Shape& shape = graph_.type(OutputOf(id)).shape;
    const bool alike = other != operand && graph_.type(other).shape == shape && graph_.type(operand).shape == shape;
    return alike ? other : ValueId();
  }

  // Tells whether the node cuts its input's last axis into equal parts.
  bool CutsRows(NodeId split) const {
    const ValueType& whole = graph_.type(node(split).inputs[0]);
    const auto axis = node(split).options.Get<proto::Split>().axis();
    const int rank = whole.shape.rank();
    return (axis < 0 ? axis + rank : axis) == rank - 1 &&
           std::all_of(node(split).outputs.begin(), node(split).outputs.end(),
                       [&](ValueId part) { return graph_.type(part).shape == graph_.type(OutputOf(split)).shape; });
  }
  int PartOf(ValueId value) const { return graph_.value(value).output_index; }

  absl::Status Lstm(NodeId split) {
    if (!CutsRows(split)) return absl::OkStatus();
    ValueId bounded_candidate;
    std::vector<ValueId> open;  // the gates, after their functions
    for (const ValueId part : node(split).outputs) {
      const NodeId reader = surroundings_.SoleReader(part);
      if (Is(reader, "sigmoid")) open.push_back(OutputOf(reader));
      if (Is(reader, "tanh")) bounded_candidate = OutputOf(reader);
    }
    if (open.size() != 3 || !bounded_candidate.valid()) return absl::OkStatus();
    const auto take = [&](ValueId gate) {  // what is no gate, or is taken already, becomes invalid
      const auto it = std::find(open.begin(), open.end(), gate);
      if (it == open.end()) return ValueId();
      open.erase(it);
      return gate;
    };
    const NodeId added = Reader(bounded_candidate, "mul");
    if (!added.valid()) return absl::OkStatus();
    const ValueId input = take(Other(added, bounded_candidate));
    const NodeId next_c = Reader(OutputOf(added), "add");
    if (!input.valid() || !next_c.valid()) return absl::OkStatus();
    const NodeId kept = Producer(Other(next_c, OutputOf(added)), "mul");
    if (!kept.valid() || surroundings_.SoleReader(OutputOf(kept)) != next_c) return absl::OkStatus();
    ValueId forget = take(node(kept).inputs[0]);
    if (!forget.valid()) forget = take(node(kept).inputs[1]);
    if (!forget.valid() || open.size() != 1) return absl::OkStatus();
    const ValueId c = Other(kept, forget), output = open[0];
    const NodeId next_h = Reader(output, "mul");
    if (!c.valid() || !next_h.valid()) return absl::OkStatus();
    const NodeId bounded = Producer(Other(next_h, output), "tanh");
    if (!bounded.valid() || node(bounded).inputs[0] != OutputOf(next_c)) return absl::OkStatus();
    if (surroundings_.SoleReader(OutputOf(bounded)) != next_h) return absl::OkStatus();
    for (const ValueId gate : {input, forget}) {
      if (!surroundings_.SoleReader(gate).valid()) return absl::OkStatus();
    }

    const auto part = [&](ValueId gate) { return PartOf(node(graph_.value(gate).producer).inputs[0]); };
    proto::LstmCell options;
    options.set_input(part(input));
    options.set_forget(part(forget));
    options.set_candidate(part(bounded_candidate));
    options.set_output(part(output));
    ValueId x = node(split).inputs[0], h;
    const NodeId sum = surroundings_.SoleReader(x) == split ? Producer(x, "add") : NodeId();
    if (sum.valid() && Other(sum, node(sum).inputs[0]).valid()) {
      h = node(sum).inputs[1];
      x = node(sum).inputs[0];
    }
    std::vector<NodeId> gone = {next_h, bounded, next_c, kept, added};
    for (const ValueId gate : {output, bounded_candidate, forget, input}) {
      gone.push_back(graph_.value(gate).producer);
    }
    gone.push_back(split);
    if (h.valid()) gone.push_back(sum);
    return Replace(next_c, "lstm_cell", {x, h, c}, proto::MakeOptions(options), {OutputOf(next_h), OutputOf(next_c)},
                   gone);
  }

  // Returns the parts of two values of which the node is the sum.
  std::optional<Pair> PartsOfSum(NodeId sum) const {
    const Pair parts = {node(sum).inputs[0], node(sum).inputs[1]};
    const bool cut = Producer(parts.a, "split").valid() && Producer(parts.b, "split").valid();
    return cut && PartOf(parts.a) == PartOf(parts.b) ? std::optional<Pair>(parts) : std::nullopt;
  }

  // The parts x and y where gate = sigmoid(x + y), whose node only `reader` reads.
  std::optional<Pair> Gate(ValueId gate, NodeId reader) const {
    const NodeId sigmoid = Producer(gate, "sigmoid");
    if (!sigmoid.valid() || surroundings_.SoleReader(gate) != reader) return std::nullopt;
    const NodeId sum = Producer(node(sigmoid).inputs[0], "add");
    if (!sum.valid() || surroundings_.SoleReader(OutputOf(sum)) != sigmoid) return std::nullopt;
    return PartsOfSum(sum);
  }

  absl::Status Gru(NodeId candidate) {
    const ValueId n = OutputOf(candidate);
    // What follows: h' = n + z (h - n).
    if (surroundings_.Kept(n) || surroundings_.Readers(n).size() != 2) return absl::OkStatus();
    NodeId change, next;
    for (const NodeId reader : surroundings_.Readers(n)) {
      if (Is(reader, "sub") && node(reader).inputs[1] == n) change = reader;
      if (Is(reader, "add")) next = reader;
    }
    if (!change.valid() || !next.valid() || !Other(change, n).valid()) return absl::OkStatus();
    const ValueId h = node(change).inputs[0];
    const NodeId kept = Reader(OutputOf(change), "mul");
    if (!kept.valid() || Other(next, n) != OutputOf(kept)) return absl::OkStatus();
    if (surroundings_.SoleReader(OutputOf(kept)) != next) return absl::OkStatus();
    const ValueId z = Other(kept, OutputOf(change));
    // What comes before: n = tanh(x_n + r y_n).
    const NodeId sum = Producer(node(candidate).inputs[0], "add");
    if (!z.valid() || !sum.valid() || surroundings_.SoleReader(OutputOf(sum)) != candidate) return absl::OkStatus();
    ValueId x_n = node(sum).inputs[0];
    NodeId reset = Producer(node(sum).inputs[1], "mul");
    if (!reset.valid()) {
      x_n = node(sum).inputs[1];
      reset = Producer(node(sum).inputs[0], "mul");
    }
    if (!reset.valid() || surroundings_.SoleReader(OutputOf(reset)) != sum) return absl::OkStatus();
    ValueId y_n = node(reset).inputs[0];
    if (!Producer(y_n, "split").valid()) y_n = node(reset).inputs[1];
    const ValueId r = Other(reset, y_n);
    const std::optional<Pair> of_r = Gate(r, reset), of_z = Gate(z, kept);
    const NodeId split_x = Producer(x_n, "split"), split_y = Producer(y_n, "split");
    if (!of_r.has_value() || !of_z.has_value() || !split_x.valid() || !split_y.valid() || split_x == split_y ||
        PartOf(x_n) != PartOf(y_n)) {
      return absl::OkStatus();
    }
    for (const NodeId split : {split_x, split_y}) {
      const auto comes_from_it = [&](const Pair& pair) {
        return graph_.value(pair.a).producer == split || graph_.value(pair.b).producer == split;
      };
      const bool whole = node(split).outputs.size() == 3 && CutsRows(split) && comes_from_it(*of_r) &&
                         comes_from_it(*of_z) &&
                         std::all_of(node(split).outputs.begin(), node(split).outputs.end(),
                                     [&](ValueId part) { return surroundings_.SoleReader(part).valid(); });
      if (!whole) return absl::OkStatus();
    }
    if (graph_.type(h).shape != graph_.type(x_n).shape) return absl::OkStatus();

    proto::GruCell options;
    options.set_reset(PartOf(of_r->a));
    options.set_update(PartOf(of_z->a));
    options.set_candidate(PartOf(x_n));
    const NodeId r_sigmoid = graph_.value(r).producer, z_sigmoid = graph_.value(z).producer;
    const std::vector<NodeId> gone = {next,
                                      kept,
                                      change,
                                      candidate,
                                      sum,
                                      reset,
                                      r_sigmoid,
                                      z_sigmoid,
                                      Producer(node(r_sigmoid).inputs[0], "add"),
                                      Producer(node(z_sigmoid).inputs[0], "add"),
                                      split_x,
                                      split_y};
    return Replace(next, "gru_cell", {node(split_x).inputs[0], node(split_y).inputs[0], h}, proto::MakeOptions(options),
                   {OutputOf(next)}, gone);
  }

  // Puts the cell where `at` stands, whose first outputs take the place of `replaced`, and takes out the nodes that it
  // stands for, readers first.
  absl::Status Replace(NodeId at, absl::string_view op, std::vector<ValueId> inputs, Options options,
                       const std::vector<ValueId>& replaced, const std::vector<NodeId>& gone) {
    NodeSpec spec{.name = std::string(node(gone[0]).name) + "/cell",
                  .op = std::string(op),
                  .options = std::move(options),
                  .inputs = std::move(inputs),
                  .loc = node(gone[0]).loc,
                  .phase = node(gone[0]).phase};
    graph_.SetInsertionPoint(at);
    const absl::StatusOr<NodeId> cell = builder_.Add(std::move(spec));
    graph_.SetInsertionPoint(NodeId());
    SNUG_RETURN_IF_ERROR(cell.status());
    for (size_t i = 0; i < replaced.size(); ++i) graph_.ReplaceUses(replaced[i], node(*cell).outputs[i]);
    for (const NodeId id : gone) graph_.RemoveNode(id);
    return absl::OkStatus();
  }

  const Surroundings surroundings_;  // of the graph at first: cells share no nodes
  GraphBuilder builder_;
  Graph& graph_;
};

}  // namespace

absl::Status FindRecurrentCells(Graph& graph, const OpRegistry& registry) {
  for (const NodeId id : graph.ProgramOrder()) {
    std::vector<std::shared_ptr<const Graph>> bodies;
    for (const auto& body : graph.node(id).subgraphs) {
      auto copy = std::make_shared<Graph>(*body);
      SNUG_RETURN_IF_ERROR(FindRecurrentCells(*copy, registry));
      SNUG_RETURN_IF_ERROR(CellFinder(registry, copy.get()).Run());
      bodies.push_back(std::move(copy));
    }
    graph.node(id).subgraphs = std::move(bodies);
  }
  return absl::OkStatus();
}

}  // namespace snug::core
