// Takes out of a loop's body what does not depend on its carries: products with the slices that a round reads, lookups
// of them, and what is done to them element by element. It is done once for all rounds, before the loop, and its result
// is scanned in the place of what it was made from:
//
//   loop(x scanned along axis 1) { h' = tanh(dense(x, u) + dense(h, w)) }
//     -> y = dense(transpose(x), u); loop(y scanned along axis 0) { h' = tanh(y + dense(h, w)) }
//
// So one product of rounds * batch rows takes the place of many of batch rows, and so do its gradients. What is scanned
// comes to lie round by round (it is transposed before the product, where it has fewer columns as a rule), so that a
// slice of the result is a view, and the gradients of all slices are written where they are joined. What a loop before
// collects for this one alone, it collects round by round. What depends on captured values alone is done once, too.
//
// An op may go if the rounds are nothing but more rows to it: then a round's slice of its result is what the round
// would have computed, but for the rounding of a product of another shape.
//
// Where a count says how many rounds there are, what is read in those that do not count may be anything, and must not
// reach the gradients of what all rounds read: a product with a gradient of zero would be NaN if it is not finite. So
// zeros are put in its place (rounds_in_count), and only those ops go whose gradients are zero there. If there is only
// one count, and it is 0, gates keep its gradients in. A condition is known in its round only: loops with one keep
// everything.
#include "engine/compile/control/hoist_inputs.h"

#include <absl/algorithm/container.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/string_view.h>

#include <algorithm>
#include <memory>
#include <set>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "engine/base/status.h"
#include "engine/compile/control/control_nodes.h"
#include "engine/compile/passes/pass.h"
#include "engine/graph/graph.h"
#include "ops/graph_builder.h"
#include "proto/internal.pb.h"
#include "proto/loops.pb.h"
#include "proto/network.pb.h"
#include "proto/options.h"

namespace snug::core {
namespace {

// What a value of the body is, seen from outside.
struct Seen {
  enum class Kind : uint8_t {
    kVarying,  // depends on the rounds before, or on the round's number
    kSame,     // is the same in every round
    kRows,     // depends on what is scanned and captured only: a slice of a value that has the rounds as axis 0
  };
  Kind kind = Kind::kVarying;
  bool reverse = false;     // kRows: the last slice comes first
  bool per_sample = false;  // has a row for each sample
};

// Of a loop as it is imported (proto::LoopNode) or in normal form (proto::NormalLoop).
template <class LoopOptions>
class LoopHoister {
 public:
  LoopHoister(const OpRegistry& registry, Graph* graph, NodeId loop)
      : registry_(registry),
        builder_(registry, graph),
        graph_(*graph),
        loop_(loop),
        held_(graph->node(loop).options),
        options_(held_.Get<LoopOptions>()),
        body_(*graph->node(loop).subgraphs[0]),
        around_(builder_, loop),
        count_(CountOf()),
        seen_(body_.value_capacity()),
        needed_inside_(body_.value_capacity(), false),
        needed_outside_(body_.value_capacity(), false),
        outside_(body_.value_capacity()) {}

  absl::Status Run() {
    SeeInputs();
    for (const NodeId id : body_.ProgramOrder()) See(id);
    if (!FindWhatIsNeeded()) return absl::OkStatus();
    graph_.SetInsertionPoint(loop_);
    absl::Status status = AddOutside();
    graph_.SetInsertionPoint(NodeId());
    SNUG_RETURN_IF_ERROR(status);
    MakeBody();
    return absl::OkStatus();
  }

 private:
  using Kind = Seen::Kind;
  using Along = typename LoopOptions::Along;
  static constexpr bool kImported = std::is_same_v<LoopOptions, proto::LoopNode>;

  ValueId CountOf() const {
    if constexpr (kImported) return options_.counted() ? graph_.node(loop_).inputs.back() : ValueId();
    return ValueId();
  }
  // Whether each sample has a count of its own.
  bool CountsBySample() const { return count_.valid() && graph_.type(count_).num_elements() > 1; }
  bool HasRowForEach(const Shape& shape) const {
    return shape.rank() > 0 && shape[0] == graph_.type(count_).num_elements();
  }

  static size_t At(ValueId value) { return static_cast<size_t>(value.index); }
  const Seen& seen(ValueId value) const { return seen_[At(value)]; }
  const Node& loop() const { return graph_.node(loop_); }

  void SeeInputs() {
    for (size_t i = 0; i < body_.inputs().size(); ++i) seen_[At(body_.inputs()[i])].kind = Kind::kSame;
    const auto input = [&](int port) -> Seen& { return seen_[At(body_.inputs()[static_cast<size_t>(port)])]; };
    for (const auto& carry : options_.carry()) input(carry.input()).kind = Kind::kVarying;
    for (const Along& scan : options_.scan()) {
      input(scan.port()).kind = Kind::kRows;
      input(scan.port()).reverse = scan.reverse();
    }
    if (options_.has_index()) input(options_.index()).kind = Kind::kVarying;
    if constexpr (kImported) {
      for (const int port : options_.per_sample()) input(port).per_sample = true;
    }
    for (const Along& scan : options_.scan()) {
      const Shape& slice = body_.type(body_.inputs()[static_cast<size_t>(scan.port())]).shape;
      const bool stays = CountsBySample() && !(input(scan.port()).per_sample && HasRowForEach(slice));
      if (stays) input(scan.port()).kind = Kind::kVarying;
    }
  }

  void See(NodeId id) {
    const Node& node = body_.node(id);
    const OpDef& op = registry_.Get(node.op);
    const bool acts = op.traits.random || op.traits.side_effect || !node.subgraphs.empty() ||
                      std::any_of(op.aliases.begin(), op.aliases.end(),
                                  [](const Alias& alias) { return alias.kind == Alias::Kind::kMutates; });
    const bool stays = acts || (count_.valid() && !node.inputs.empty() && !LetsNothingBack(op));
    Seen result{.kind = stays ? Kind::kVarying : Kind::kSame};
    for (const ValueId input : node.inputs) {
      if (!input.valid() || result.kind == Kind::kVarying) continue;
      const Seen& its = seen(input);
      const bool clash = its.kind == Kind::kRows && result.kind == Kind::kRows && its.reverse != result.reverse;
      if (its.kind == Kind::kVarying || clash) {
        result.kind = Kind::kVarying;
      } else if (its.kind == Kind::kRows) {
        result.kind = Kind::kRows;
        result.reverse = its.reverse;
      }
      result.per_sample = result.per_sample || its.per_sample;
    }
    if (result.kind == Kind::kRows && !WorksRowByRow(node, op)) result.kind = Kind::kVarying;
    for (const ValueId output : node.outputs) seen_[At(output)] = result;
  }

  Shape WithRounds(const Shape& slice) const {
    Shape whole({options_.rounds()});
    for (const int64_t dim : slice.dims()) whole.Append(dim);
    return whole;
  }

  // Tells whether an op that reads slices does the same to all of them at once, one more axis before the others.
  bool WorksRowByRow(const Node& node, const OpDef& op) const {
    NodeTypes types = TypesOf(body_, node);
    const auto is_rows = [&](size_t i) { return node.inputs[i].valid() && seen(node.inputs[i]).kind == Kind::kRows; };
    if (node.outputs.size() != 1) return false;
    const int rank = types.output(0).shape.rank();
    if (rank == kMaxRank) return false;
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      const bool rows_may_be_here = (op.name != "dense" && op.name != "embedding") || i == 0;
      if (is_rows(i) && !rows_may_be_here) return false;
      // Operands are broadcast along the first axes, of which slices get another one.
      if (IsElementwise(op) && is_rows(i) && types.inputs[i].shape.rank() != rank) return false;
      if (is_rows(i)) types.inputs[i].shape = WithRounds(types.inputs[i].shape);
    }
    if (op.name != "dense" && op.name != "embedding" && !IsElementwise(op)) return false;
    const Shape whole = WithRounds(types.output(0).shape);
    return InferTypes(op, &types).ok() && types.output(0).shape == whole;
  }

  // Whether a gradient of zero stays zero on its way back where what the op reads is finite.
  static bool LetsNothingBack(const OpDef& op) {
    constexpr absl::string_view kOps[] = {"dense", "embedding", "add",  "sub",  "mul",    "neg",
                                          "scale", "cast",      "relu", "tanh", "sigmoid"};
    return op.traits.view || absl::c_linear_search(kOps, op.name);
  }

  // Elementwise by its formula alone: options say nothing of shapes or axes.
  static bool IsElementwise(const OpDef& op) {
    return op.elementwise.expression != nullptr && op.elementwise.operand_view == nullptr && op.name != "broadcast_to";
  }

  // Constants are made anew in the body, too, where they are read.
  bool IsHoisted(NodeId id) const {
    const Node& node = body_.node(id);
    return !node.inputs.empty() && !node.outputs.empty() && seen(node.outputs[0]).kind != Kind::kVarying;
  }

  // Sets what the new body and the nodes before the loop read. Returns whether anything is taken out.
  bool FindWhatIsNeeded() {
    bool any = false;
    for (const Output& output : body_.outputs) needed_inside_[At(output.value)] = true;
    for (NodeId id = body_.last_node(); id.valid(); id = body_.node(id).previous) {
      const Node& node = body_.node(id);
      const auto read = [&](const std::vector<bool>& needed) {
        return std::any_of(node.outputs.begin(), node.outputs.end(), [&](ValueId v) { return needed[At(v)]; });
      };
      const bool hoisted = IsHoisted(id);
      const bool outside = read(needed_outside_) || (hoisted && read(needed_inside_));
      const bool inside = read(needed_inside_) && !hoisted;
      any = any || (hoisted && outside);
      for (const ValueId input : node.inputs) {
        if (!input.valid()) continue;
        if (outside) needed_outside_[At(input)] = true;
        if (inside) needed_inside_[At(input)] = true;
      }
      if (outside) to_add_.push_back(id);
      if (inside) to_keep_.push_back(id);
    }
    std::reverse(to_add_.begin(), to_add_.end());
    std::reverse(to_keep_.begin(), to_keep_.end());
    return any;
  }

  absl::Status AddOutside() {
    for (size_t i = 0; i < body_.inputs().size(); ++i) {
      const ValueId input = body_.inputs()[i];
      if (seen(input).kind != Kind::kSame) continue;
      outside_[At(input)] = loop().inputs[i];
      if (needed_outside_[At(input)]) SNUG_RETURN_IF_ERROR(Gate(outside_[At(input)], seen(input).per_sample));
    }
    for (int k = 0; k < options_.scan_size(); ++k) {
      const Along& scan = options_.scan(k);
      const auto port = static_cast<size_t>(scan.port());
      const ValueId input = body_.inputs()[port];
      if (!needed_outside_[At(input)]) continue;
      ValueId& rows = outside_[At(input)];
      if (CollectsRoundsFirst(loop().inputs[port], scan.axis())) {
        rows = loop().inputs[port];
        rounds_first_.insert(scan.port());
      } else {
        SNUG_ASSIGN_OR_RETURN(rows, RoundsFirst(loop().inputs[port], scan.axis(), k));
      }
      if (count_.valid()) SNUG_RETURN_IF_ERROR(KeepWhatCounts(rows, scan.reverse(), k));
    }
    for (const NodeId id : to_add_) {
      const Node& node = body_.node(id);
      NodeSpec spec{.name = absl::StrCat(loop().name, "/", node.name),
                    .op = node.op,
                    .options = node.options,
                    .loc = node.loc,
                    .phase = node.phase,
                    .random_id = node.random_id};
      for (const ValueId input : node.inputs) spec.inputs.push_back(input.valid() ? outside_[At(input)] : ValueId());
      SNUG_ASSIGN_OR_RETURN(const NodeId added, builder_.Add(std::move(spec)));
      for (size_t o = 0; o < node.outputs.size(); ++o) {
        outside_[At(node.outputs[o])] = graph_.node(added).outputs[o];
      }
    }
    return absl::OkStatus();
  }

  // Where no round counts, nothing flows back to what all rounds read; nor to the rows of a sample of which none does.
  absl::Status Gate(ValueId& value, bool per_sample) {
    const ValueType type = graph_.type(value);
    if (!count_.valid() || !IsFloating(type.dtype)) return absl::OkStatus();
    if (CountsBySample() && !(per_sample && HasRowForEach(type.shape))) return absl::OkStatus();
    if (!any_counts_.valid()) {
      SNUG_ASSIGN_OR_RETURN(any_counts_, around_.IsAbove(count_, 0, "any_round"));
    }
    SNUG_ASSIGN_OR_RETURN(value, around_.Gate(value, any_counts_, absl::StrCat("before_rounds", gates_++)));
    return absl::OkStatus();
  }

  // Zeros in the place of what is read in rounds that do not count; the rounds are axis 0.
  absl::Status KeepWhatCounts(ValueId& rows, bool reverse, int k) {
    if (!CountsBySample()) SNUG_RETURN_IF_ERROR(Gate(rows, /*per_sample=*/false));
    proto::NormalLoop rounds;
    rounds.set_rounds(options_.rounds());
    if (reverse) rounds.set_backwards(true);
    SNUG_ASSIGN_OR_RETURN(const ValueId counts, around_.AddOne("rounds_in_count", {count_}, proto::MakeOptions(rounds),
                                                               absl::StrCat("counts", k)));
    const Shape shape = graph_.type(rows).shape;
    const std::string name = absl::StrCat("counted", k);
    if (CountsBySample()) {
      const Shape by_row = shape.Without(0).WithDim(0, shape[0] * shape[1]);
      SNUG_ASSIGN_OR_RETURN(rows, around_.Reshape(rows, by_row, absl::StrCat(name, "/rows")));
    }
    SNUG_ASSIGN_OR_RETURN(rows, around_.Keep(counts, rows, name));
    if (!CountsBySample()) return absl::OkStatus();
    SNUG_ASSIGN_OR_RETURN(rows, around_.Reshape(rows, shape, absl::StrCat(name, "/rounds")));
    return absl::OkStatus();
  }

  // If a loop before this one collects the value along the axis, and for this one alone, has it put the rounds before
  // all other axes instead: then neither of them moves it.
  bool CollectsRoundsFirst(ValueId scanned, int axis) {
    if constexpr (!kImported) return false;
    const NodeId producer = graph_.value(scanned).producer;
    if (axis == 0 || !producer.valid() || graph_.node(producer).op != "loop") return false;
    proto::LoopNode maker = graph_.node(producer).options.template Get<proto::LoopNode>();
    const int number = graph_.value(scanned).output_index - maker.carry_size();
    if (number < 0 || maker.collect(number).axis() != axis) return false;
    if (absl::c_any_of(graph_.outputs, [&](const Output& output) { return output.value == scanned; })) return false;
    if (absl::c_linear_search(graph_.objectives, scanned)) return false;
    int64_t readings = 0;
    for (NodeId id = graph_.first_node(); id.valid(); id = graph_.node(id).next) {
      readings += absl::c_count(graph_.node(id).inputs, scanned);
    }
    if (readings != 1) return false;
    maker.mutable_collect(number)->set_axis(0);
    graph_.node(producer).options = proto::MakeOptions(maker);
    Shape& shape = graph_.value(scanned).type.shape;
    Shape moved({shape[axis]});
    for (int i = 0; i < shape.rank(); ++i) {
      if (i != axis) moved.Append(shape[i]);
    }
    shape = moved;
    return true;
  }

  // Returns what is scanned with the axis of the rounds before all others.
  absl::StatusOr<ValueId> RoundsFirst(ValueId scanned, int axis, int k) {
    if (axis == 0) return scanned;
    proto::Transpose transpose;
    transpose.add_axes(axis);
    for (int i = 0; i < graph_.type(scanned).shape.rank(); ++i) {
      if (i != axis) transpose.add_axes(i);
    }
    SNUG_ASSIGN_OR_RETURN(const NodeId node, builder_.Add({.name = absl::StrCat(loop().name, "/rounds", k),
                                                           .op = "transpose",
                                                           .options = proto::MakeOptions(transpose),
                                                           .inputs = {scanned},
                                                           .loc = loop().loc}));
    return graph_.node(node).outputs[0];
  }

  // Makes the body anew, of what is left, and has the loop run it.
  void MakeBody() {
    auto body = std::make_shared<Graph>();
    body->name = body_.name;
    std::vector<ValueId> copies(body_.value_capacity());
    std::vector<ValueId> feeds;
    LoopOptions options = options_;
    options.clear_carry();
    options.clear_scan();
    if constexpr (kImported) options.clear_per_sample();
    options.clear_index();
    const auto add_input = [&](ValueId of, ValueId feed) {
      const Value& value = body_.value(of);
      copies[At(of)] = body->AddInput(value.name, value.type, value.max_value);
      feeds.push_back(feed);
      const auto port = static_cast<int>(feeds.size()) - 1;
      if constexpr (kImported) {
        if (seen(of).per_sample) options.add_per_sample(port);
      }
      return port;
    };
    for (size_t i = 0; i < body_.inputs().size(); ++i) {
      const ValueId input = body_.inputs()[i];
      const auto is_it = [&](const auto& part) { return static_cast<size_t>(part) == i; };
      const auto carry = std::find_if(options_.carry().begin(), options_.carry().end(),
                                      [&](const auto& c) { return is_it(c.input()); });
      const bool is_carry = carry != options_.carry().end();
      if (!is_carry && !needed_inside_[At(input)]) continue;
      const int port = add_input(input, loop().inputs[i]);
      if (options_.has_index() && is_it(options_.index())) options.set_index(port);
      for (const Along& scan : options_.scan()) {
        if (!is_it(scan.port())) continue;
        Along& kept = *options.add_scan();
        kept = scan;
        kept.set_port(port);
        if (rounds_first_.contains(scan.port())) kept.set_axis(0);
      }
      if (is_carry) new_port_of_carry_.emplace_back(static_cast<int>(carry - options_.carry().begin()), port);
    }
    // Carries are told apart by their sequence: they are the first of what the loop puts out.
    std::sort(new_port_of_carry_.begin(), new_port_of_carry_.end());
    for (const auto& [k, port] : new_port_of_carry_) {
      *options.add_carry() = options_.carry(k);
      options.mutable_carry(k)->set_input(port);
    }
    for (const NodeId id : to_add_) {
      for (const ValueId output : body_.node(id).outputs) {
        if (!IsHoisted(id) || !needed_inside_[At(output)]) continue;
        const int port = add_input(output, outside_[At(output)]);
        if (seen(output).kind != Kind::kRows) continue;
        Along& scan = *options.add_scan();
        scan.set_port(port);
        scan.set_axis(0);
        if (seen(output).reverse) scan.set_reverse(true);
      }
    }
    if (count_.valid()) feeds.push_back(count_);
    for (const NodeId id : to_keep_) Keep(id, body.get(), &copies);
    for (const Output& output : body_.outputs) body->outputs.push_back({output.name, copies[At(output.value)]});
    Node& node = graph_.node(loop_);
    node.inputs = std::move(feeds);
    node.options = proto::MakeOptions(options);
    node.subgraphs = {std::move(body)};
  }

  void Keep(NodeId id, Graph* body, std::vector<ValueId>* copies) const {
    const Node& node = body_.node(id);
    NodeSpec spec{.name = node.name,
                  .op = node.op,
                  .options = node.options,
                  .loc = node.loc,
                  .phase = node.phase,
                  .random_id = node.random_id,
                  .subgraphs = node.subgraphs};
    for (const ValueId input : node.inputs) spec.inputs.push_back(input.valid() ? (*copies)[At(input)] : ValueId());
    for (const ValueId output : node.outputs) spec.output_types.push_back(body_.type(output));
    const NodeId added = body->AddNode(std::move(spec));
    for (size_t o = 0; o < node.outputs.size(); ++o) (*copies)[At(node.outputs[o])] = body->node(added).outputs[o];
  }

  const OpRegistry& registry_;
  GraphBuilder builder_;
  Graph& graph_;
  const NodeId loop_;
  const Options held_;  // the loop's, as it was
  const LoopOptions& options_;
  const Graph body_;
  ControlNodes around_;
  const ValueId count_;  // of rounds, if it is known at run time
  ValueId any_counts_;   // a mask, once it is needed
  int gates_ = 0;
  std::set<int> rounds_first_;  // ports whose sequence lies so that a slice is a view
  std::vector<Seen> seen_;      // this and what follows: by value of the body
  std::vector<bool> needed_inside_, needed_outside_;
  std::vector<ValueId> outside_;          // what stands before the loop for it
  std::vector<NodeId> to_add_, to_keep_;  // nodes of the body: before the loop, in it
  std::vector<std::pair<int, int>> new_port_of_carry_;
};

}  // namespace

absl::Status HoistFromChunk(Graph& chunk, const OpRegistry& registry, NodeId loop) {
  return LoopHoister<proto::NormalLoop>(registry, &chunk, loop).Run();
}

absl::Status HoistLoopInputs(Graph& graph, const OpRegistry& registry) {
  for (const NodeId id : graph.ProgramOrder()) {
    if (graph.node(id).subgraphs.empty()) continue;
    // Inner loops come first: what is taken out of them may leave the outer one, too.
    std::vector<std::shared_ptr<const Graph>> bodies;
    for (const auto& body : graph.node(id).subgraphs) {
      auto copy = std::make_shared<Graph>(*body);
      SNUG_RETURN_IF_ERROR(HoistLoopInputs(*copy, registry));
      bodies.push_back(std::move(copy));
    }
    graph.node(id).subgraphs = std::move(bodies);
    if (graph.node(id).op != "loop") continue;
    const auto& options = graph.node(id).options.Get<proto::LoopNode>();
    if (options.has_condition()) continue;
    const absl::Status status = LoopHoister<proto::LoopNode>(registry, &graph, id).Run();
    if (!status.ok()) return NodeError(graph.node(id).loc, graph.node(id).name, graph.node(id).op, status);
  }
  return absl::OkStatus();
}

}  // namespace snug::core
