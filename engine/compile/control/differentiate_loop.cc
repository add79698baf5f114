#include "engine/compile/control/differentiate_loop.h"

#include <absl/algorithm/container.h>
#include <absl/strings/str_cat.h>

#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>

#include "engine/base/status.h"
#include "engine/compile/control/body_copier.h"
#include "engine/compile/control/control_nodes.h"
#include "engine/compile/control/loop_paths.h"
#include "engine/compile/control/loop_products.h"
#include "engine/compile/differentiate/differentiate.h"
#include "proto/loops.pb.h"
#include "proto/network.pb.h"
#include "proto/options.h"

namespace snug::core {
namespace {

class LoopDifferentiator {
 public:
  LoopDifferentiator(GraphBuilder& builder, NodeId loop, absl::Span<const ValueId> output_grads,
                     const std::vector<bool>& wanted)
      : builder_(builder),
        graph_(builder.graph()),
        loop_(loop),
        output_grads_(output_grads.begin(), output_grads.end()),
        wanted_(wanted),
        options_(graph_.node(loop).options.Get<proto::NormalLoop>()),
        body_(*graph_.node(loop).subgraphs[0]),
        around_(builder, absl::StrCat(graph_.node(loop).name, "/gradient"), graph_.node(loop).loc, Phase::kBackward) {}

  absl::StatusOr<std::vector<ValueId>> Run() {
    std::vector<ValueId> result(graph_.node(loop_).inputs.size());
    paths_ = FindPaths(body_, options_, output_grads_, wanted_);
    if (paths_.seeded_carries.empty() && paths_.seeded_collects.empty()) return result;
    SNUG_RETURN_IF_ERROR(DifferentiateBody());
    StartGradient();
    SNUG_RETURN_IF_ERROR(CopyBackwardNodes());
    SNUG_RETURN_IF_ERROR(AddCarries());
    SNUG_RETURN_IF_ERROR(AddScansGradients());
    SNUG_RETURN_IF_ERROR(AddCapturedGradients());
    SNUG_RETURN_IF_ERROR(FinishForward());
    SNUG_RETURN_IF_ERROR(Finish(&result));
    return result;
  }

 private:
  // What the rounds leave of a value for the gradient: an output of the loop.
  struct Stashed {
    ValueId value;           // of both_
    ValueId whole;           // the output
    bool reverse = false;    // the last slice comes first
    bool collected = false;  // it is collected anyway, along axis 0; otherwise it is a stash
  };

  template <class Id>
  static size_t Index(Id id) {
    return static_cast<size_t>(id.index);
  }
  ValueId InputAt(int port) const { return body_.inputs()[static_cast<size_t>(port)]; }
  ValueId OutputAt(int port) const { return body_.outputs[static_cast<size_t>(port)].value; }
  ValueId FeedAt(int port) const { return graph_.node(loop_).inputs[static_cast<size_t>(port)]; }
  // The body of a branch runs once or not at all, so what it gives to a gradient is all of it.
  bool OfBranch() const { return options_.has_only_rounds(); }
  bool IsCarry(int port) const {
    return absl::c_any_of(options_.carry(), [&](const proto::NormalLoop::Carry& c) { return c.input() == port; });
  }
  const proto::NormalLoop::Along* ScanOf(int port) const {
    const auto found = absl::c_find_if(options_.scan(), [&](const auto& scan) { return scan.port() == port; });
    return found == options_.scan().end() ? nullptr : &*found;
  }

  // --- the gradient of one round, beside the round ---

  absl::Status DifferentiateBody() {
    both_ = body_;
    BackwardOptions backward;
    for (size_t i = 0; i < paths_.active.size(); ++i) {
      if (paths_.active[i]) backward.wanted.push_back(body_.inputs()[i]);
    }
    const auto add = [&](const std::string& name, int output) {
      const ValueId value = OutputAt(output);
      ValueType type = body_.type(value);
      const ValueId seed = both_.AddInput(absl::StrCat("d(", name, ")"), std::move(type));
      backward.seeds.emplace_back(value, seed);
      return seed;
    };
    for (const int k : paths_.seeded_carries)
      carry_seeds_.push_back(add(absl::StrCat("carry", k), options_.carry(k).output()));
    for (const int k : paths_.seeded_collects) {
      collect_seeds_.push_back(add(absl::StrCat("collect", k), options_.collect(k).port()));
    }
    GraphBuilder builder(builder_.registry(), &both_);
    SNUG_ASSIGN_OR_RETURN(gradients_, AddBackward(builder, backward));
    return absl::OkStatus();
  }

  // --- the body of the gradient ---

  void StartGradient() {
    gradient_.name = absl::StrCat(body_.name, "/gradient");
    mapped_.assign(both_.value_capacity(), ValueId());
    new_options_.set_rounds(options_.rounds());
    if (options_.has_key()) new_options_.set_key(options_.key());
    new_options_.set_rolled(options_.rolled());
    new_options_.set_backwards(!options_.backwards());
  }

  int AddInput(const std::string& name, ValueType type, ValueId feed, int64_t max_value = 0) {
    std::string unique = name;
    while (gradient_.FindValue(unique).valid()) unique += "'";
    gradient_.AddInput(unique, std::move(type), max_value);
    feeds_.push_back(feed);
    return static_cast<int>(feeds_.size()) - 1;
  }
  ValueId NewInput(int port) const { return gradient_.inputs()[static_cast<size_t>(port)]; }

  int AddOutput(const std::string& name, ValueId value) {
    gradient_.outputs.push_back({name, value});
    return static_cast<int>(gradient_.outputs.size()) - 1;
  }

  // Its result is a type of the node's outputs.
  int AddResult(ValueType type) {
    result_types_.push_back(std::move(type));
    return static_cast<int>(result_types_.size()) - 1;
  }

  void AddScan(int port, int axis, bool reverse, bool stash) {
    proto::NormalLoop::Along& scan = *new_options_.add_scan();
    scan.set_port(port);
    scan.set_axis(axis);
    if (reverse) scan.set_reverse(true);
    if (stash) scan.set_stash(true);
  }

  // What a value of the forward round is in the gradient's body.
  absl::StatusOr<ValueId> Import(ValueId value) {
    if (mapped_[Index(value)].valid()) return mapped_[Index(value)];
    const Value& v = both_.value(value);
    if (v.is_input) return mapped_[Index(value)] = ImportInput(value);
    const Node& node = both_.node(v.producer);
    const OpDef& op = builder_.registry().Get(node.op);
    if (op.traits.view && both_.type(node.inputs[0]) == v.type) {
      SNUG_ASSIGN_OR_RETURN(mapped_[Index(value)], Import(node.inputs[0]));
      return mapped_[Index(value)];
    }
    if (node.inputs.empty() || (op.traits.view && node.inputs.size() == 1)) {
      for (const ValueId input : node.inputs) SNUG_RETURN_IF_ERROR(Import(input).status());
      NodeSpec spec = CopyOf(both_, node, mapped_);
      spec.phase = Phase::kBackward;
      AddCopy(both_, node, std::move(spec), gradient_, mapped_);
      return mapped_[Index(value)];
    }
    if (options_.recompute()) return Again(v.producer, value);
    return mapped_[Index(value)] = Stash(value);
  }

  // Computes it anew, from what the round began with.
  absl::StatusOr<ValueId> Again(NodeId producer, ValueId value) {
    const Node& node = both_.node(producer);
    for (const ValueId input : node.inputs) {
      if (input.valid()) SNUG_RETURN_IF_ERROR(Import(input).status());
    }
    NodeSpec spec = CopyOf(both_, node, mapped_);
    spec.name = absl::StrCat(node.name, "/again");
    spec.phase = Phase::kBackward;
    AddCopy(both_, node, std::move(spec), gradient_, mapped_);
    return mapped_[Index(value)];
  }

  ValueId ImportInput(ValueId value) {
    const auto port = static_cast<int>(absl::c_find(both_.inputs(), value) - both_.inputs().begin());
    if (IsCarry(port)) return StashCarry(port);
    const Value& v = both_.value(value);
    const int input = AddInput(v.name, v.type, FeedAt(port), v.max_value);
    if (options_.has_index() && port == options_.index()) new_options_.set_index(input);
    if (const proto::NormalLoop::Along* scan = ScanOf(port)) {
      AddScan(input, scan->axis(), scan->reverse(), scan->stash());
    }
    return NewInput(input);
  }

  ValueId Stash(ValueId value) {
    const Value v = both_.value(value);
    const Stashed stashed = StashOf(value);
    const int input = AddInput(v.name, v.type, stashed.whole);
    AddScan(input, 0, stashed.reverse, !stashed.collected);
    return NewInput(input);
  }

  const proto::NormalLoop::Carry* CarryOf(int port) const {
    const auto found = absl::c_find_if(options_.carry(), [&](const auto& carry) { return carry.input() == port; });
    return found == options_.carry().end() ? nullptr : &*found;
  }

  // A carry is what the round before put out, so that is stashed, and the first round reads what the loop began with.
  ValueId StashCarry(int port) {
    const Stashed stashed = StashOf(OutputAt(CarryOf(port)->output()));
    const Value& v = body_.value(InputAt(port));
    const int input = AddInput(v.name, v.type, stashed.whole);
    AddScan(input, 0, stashed.reverse, !stashed.collected);
    firsts_.emplace_back(new_options_.scan_size() - 1, FeedAt(port));
    return NewInput(input);
  }

  // Only what the gradients of the body's inputs need.
  absl::Status CopyBackwardNodes() {
    for (size_t i = 0; i < paths_.seeded_carries.size(); ++i) {
      const Value& seed = both_.value(carry_seeds_[i]);
      const proto::NormalLoop::Carry& carry = options_.carry(paths_.seeded_carries[i]);
      ValueId initial;
      if (carry.has_result()) initial = output_grads_[static_cast<size_t>(carry.result())];
      if (!initial.valid()) {
        SNUG_ASSIGN_OR_RETURN(initial, around_.Fill(seed.type.dtype, seed.type.shape, 0,
                                                    absl::StrCat("carry", paths_.seeded_carries[i])));
      }
      carry_ports_.push_back(AddInput(seed.name, seed.type, initial));
      mapped_[Index(carry_seeds_[i])] = NewInput(carry_ports_.back());
    }
    for (size_t i = 0; i < paths_.seeded_collects.size(); ++i) {
      const Value& seed = both_.value(collect_seeds_[i]);
      const proto::NormalLoop::Along& collect = options_.collect(paths_.seeded_collects[i]);
      const int port = AddInput(seed.name, seed.type, output_grads_[static_cast<size_t>(collect.result())]);
      AddScan(port, collect.axis(), collect.reverse(), collect.stash());
      mapped_[Index(collect_seeds_[i])] = NewInput(port);
    }
    std::vector<bool> needed(both_.node_capacity(), false);
    const auto need = [&](ValueId value) {
      if (!value.valid()) return;
      const NodeId producer = both_.value(value).producer;
      if (producer.valid() && both_.node(producer).phase == Phase::kBackward) needed[Index(producer)] = true;
    };
    // What is done behind the loop is done for the body of a branch that is not taken, too.
    if (!OfBranch()) summed_ = FindSummed(body_, both_, options_, gradients_);
    for (const auto& [input, gradient] : gradients_) {
      if (!summed_.products.contains(gradient) && !summed_.IsSumOfRows(gradient)) {
        need(gradient);
      } else {
        for (const ValueId value : both_.node(both_.value(gradient).producer).inputs) need(value);
      }
    }
    for (NodeId id = both_.last_node(); id.valid(); id = both_.node(id).previous) {
      if (!needed[Index(id)]) continue;
      for (const ValueId input : both_.node(id).inputs) need(input);
    }
    for (NodeId id = both_.first_node(); id.valid(); id = both_.node(id).next) {
      if (!needed[Index(id)]) continue;
      const Node& node = both_.node(id);
      for (const ValueId input : node.inputs) {
        if (input.valid()) SNUG_RETURN_IF_ERROR(Import(input).status());
      }
      AddCopy(both_, node, CopyOf(both_, node, mapped_), gradient_, mapped_);
    }
    return absl::OkStatus();
  }

  // The gradient of a body's input, or invalid.
  ValueId GradientOf(int port) const {
    const auto found = gradients_.find(InputAt(port));
    return found == gradients_.end() ? ValueId() : found->second;
  }

  absl::StatusOr<ValueId> InGradient(ValueId value) {
    if (mapped_[Index(value)].valid()) return mapped_[Index(value)];
    return Import(value);
  }

  absl::Status AddCarries() {
    ControlNodes inner(inner_builder_, "", graph_.node(loop_).loc, Phase::kBackward);
    for (size_t i = 0; i < paths_.seeded_carries.size(); ++i) {
      const int port = options_.carry(paths_.seeded_carries[i]).input();
      const ValueType type = body_.type(InputAt(port));
      ValueId gradient = GradientOf(port);
      if (gradient.valid()) {
        SNUG_ASSIGN_OR_RETURN(gradient, InGradient(gradient));
      } else {
        SNUG_ASSIGN_OR_RETURN(gradient, inner.Fill(type.dtype, type.shape, 0, absl::StrCat("carry", i)));
      }
      proto::NormalLoop::Carry& carry = *new_options_.add_carry();
      carry.set_input(carry_ports_[i]);
      carry.set_output(AddOutput(absl::StrCat("carry", i), gradient));
      if (!wanted_[static_cast<size_t>(port)]) continue;
      carry.set_result(AddResult(type));
      results_.emplace_back(port, carry.result());
    }
    return absl::OkStatus();
  }

  // A slice with the axis (PlacesOfSlice) makes it longer.
  ValueType Joined(const ValueType& part, int axis) const {
    return {part.dtype, part.shape.WithDim(axis, part.shape[axis] * options_.rounds()), {}};
  }

  ValueType Collected(const ValueType& part, int axis) const {
    Shape shape;
    for (int i = 0; i <= part.shape.rank(); ++i) {
      shape.Append(i < axis ? part.shape[i] : i == axis ? options_.rounds() : part.shape[i - 1]);
    }
    return {part.dtype, shape, {}};
  }

  int AddCollect(const std::string& name, ValueId value, int axis, bool reverse, bool stash, bool have_axis = false) {
    for (const proto::NormalLoop::Along& known : new_options_.collect()) {
      if (gradient_.outputs[static_cast<size_t>(known.port())].value == value && known.axis() == axis &&
          known.reverse() == reverse && known.stash() == stash) {
        return known.result();
      }
    }
    const ValueType type = gradient_.type(value);
    proto::NormalLoop::Along& collect = *new_options_.add_collect();
    collect.set_port(AddOutput(name, value));
    collect.set_axis(axis);
    if (reverse) collect.set_reverse(true);
    if (stash) collect.set_stash(true);
    collect.set_result(AddResult(stash ? ValueType{type.dtype, Shape({options_.rounds(), type.num_elements()}), {}}
                                 : have_axis ? Joined(type, axis)
                                             : Collected(type, axis)));
    return collect.result();
  }

  absl::Status AddScansGradients() {
    for (int k = 0; k < options_.scan_size(); ++k) {
      const proto::NormalLoop::Along& scan = options_.scan(k);
      const ValueId gradient = GradientOf(scan.port());
      if (!gradient.valid() || !wanted_[static_cast<size_t>(scan.port())]) continue;
      SNUG_ASSIGN_OR_RETURN(const ValueId value, InGradient(gradient));
      const bool have_axis =
          !scan.stash() && gradient_.type(value).shape.rank() == graph_.type(FeedAt(scan.port())).shape.rank();
      const int result =
          AddCollect(absl::StrCat("d(scan", k, ")"), value, scan.axis(), scan.reverse(), scan.stash(), have_axis);
      results_.emplace_back(scan.port(), result);
    }
    return absl::OkStatus();
  }

  int port_of(ValueId input) const {
    return static_cast<int>(absl::c_find(both_.inputs(), input) - both_.inputs().begin());
  }

  absl::Status AddCapturedGradients() {
    ControlNodes inner(inner_builder_, "", graph_.node(loop_).loc, Phase::kBackward);
    for (int port = 0; port < static_cast<int>(paths_.active.size()); ++port) {
      if (IsCarry(port) || ScanOf(port) != nullptr || !wanted_[static_cast<size_t>(port)]) continue;
      const ValueId gradient = GradientOf(port);
      if (!gradient.valid()) continue;
      if (summed_.products.contains(gradient)) {
        SNUG_RETURN_IF_ERROR(AddProduct(port, gradient));
        continue;
      }
      if (summed_.IsSumOfRows(gradient)) continue;
      SNUG_ASSIGN_OR_RETURN(ValueId part, InGradient(gradient));
      const std::string name = absl::StrCat("d(", body_.value(InputAt(port)).name, ")");
      if (OfBranch()) {  // the round's part is all of it, and what is collected is zero where no round has run
        // Flat, as what is collected has one axis more, and a shape may have all that are possible.
        const Shape flat({gradient_.type(part).num_elements()});
        SNUG_ASSIGN_OR_RETURN(part, inner.Reshape(part, flat, absl::StrCat(name, "/flat")));
        results_.emplace_back(port, AddCollect(name, part, /*axis=*/0, /*reverse=*/false, /*stash=*/false));
        continue;
      }
      const ValueType type = gradient_.type(part);
      const bool widens = type.dtype == DType::kBFloat16;
      const ValueType sum_type{widens ? DType::kFloat32 : type.dtype, type.shape, {}};
      SNUG_ASSIGN_OR_RETURN(const ValueId zeros, around_.Fill(sum_type.dtype, sum_type.shape, 0, name));
      if (widens) {
        SNUG_ASSIGN_OR_RETURN(part, inner.Cast(part, sum_type.dtype, absl::StrCat(name, "/float32")));
      }
      proto::NormalLoop::Carry& carry = *new_options_.add_carry();
      carry.set_input(AddInput(absl::StrCat(name, "/before"), sum_type, zeros));
      SNUG_ASSIGN_OR_RETURN(const ValueId sum, inner.Sum({NewInput(carry.input()), part}, name));
      carry.set_output(AddOutput(name, sum));
      carry.set_result(AddResult(sum_type));
      results_.emplace_back(port, carry.result());
    }
    return absl::OkStatus();
  }

  // Collects dy beside the x that the layer read, along the same axis.
  absl::Status AddProduct(int port, ValueId gradient) {
    const Node& node = both_.node(both_.value(gradient).producer);
    const ValueId x = node.inputs[0];
    SNUG_ASSIGN_OR_RETURN(const ValueId dy, InGradient(node.inputs[1]));
    const Value& v = both_.value(x);
    const proto::NormalLoop::Along* const scan = v.is_input ? ScanOf(port_of(x)) : nullptr;
    SummedProduct summed{.input = port, .x_shape = Collected(v.type, 0).shape, .name = node.name};
    int axis = 0;
    if (scan != nullptr) {
      summed.x = FeedAt(scan->port());
      axis = scan->axis();
      summed.x_shape = graph_.type(summed.x).shape;
      summed.reverse = scan->reverse();
    } else {
      const bool carry = v.is_input;
      const Stashed stashed = StashOf(carry ? OutputAt(CarryOf(port_of(x))->output()) : x);
      summed.x = stashed.whole;
      summed.reverse = stashed.reverse;
      if (carry) summed.first = FeedAt(port_of(x));
    }
    const int dys = AddCollect(absl::StrCat("dy of ", node.name), dy, axis, summed.reverse, /*stash=*/false);
    products_.emplace_back(std::move(summed), dys);
    collected_dys_[node.inputs[1]] = dys;
    return absl::OkStatus();
  }

  // Stashes lie as what is scanned does: then what flows back is collected once, for gradients of scans and of weights.
  bool ScansInReverse() const {
    return options_.scan_size() > 0 && absl::c_all_of(options_.scan(), [](const auto& scan) { return scan.reverse(); });
  }

  Stashed StashOf(ValueId value) {
    for (const Stashed& stashed : stashes_) {
      if (stashed.value == value) return stashed;
    }
    Stashed stashed{.value = value, .reverse = ScansInReverse()};
    for (const proto::NormalLoop::Along& collect : options_.collect()) {
      if (OutputAt(collect.port()) != value || collect.axis() != 0 || collect.stash() || !collect.has_result())
        continue;
      stashed.whole = graph_.node(loop_).outputs[static_cast<size_t>(collect.result())];
      stashed.collected = true;
      stashed.reverse = collect.reverse();
    }
    if (!stashed.collected) {
      const Value& v = both_.value(value);
      stashed.whole = core::AddOutput(graph_, loop_, absl::StrCat(graph_.node(loop_).name, "/stash/", v.name),
                                      {v.type.dtype, Shape({options_.rounds(), v.type.num_elements()}), {}});
    }
    stashes_.push_back(stashed);
    return stashed;
  }

  // --- the nodes ---

  // The loop's body as it is now: loops in it have stashes of their own, and it puts out what is stashed.
  absl::Status FinishForward() {
    Graph forward;
    forward.name = body_.name;
    // What is computed anew needs no stashes here.
    const Graph& from = options_.recompute() ? body_ : both_;
    std::vector<ValueId> copies(both_.value_capacity());
    for (const ValueId input : body_.inputs()) {
      const Value& value = body_.value(input);
      copies[Index(input)] = forward.AddInput(value.name, value.type, value.max_value);
    }
    for (NodeId id = from.first_node(); id.valid(); id = from.node(id).next) {
      const Node& node = from.node(id);
      if (node.phase == Phase::kForward) AddCopy(from, node, CopyOf(from, node, copies), forward, copies);
    }
    for (const Output& output : body_.outputs) forward.outputs.push_back({output.name, copies[Index(output.value)]});
    proto::NormalLoop options = options_;
    for (const auto& [value, whole, reverse, collected] : stashes_) {
      if (collected) continue;
      proto::NormalLoop::Along& collect = *options.add_collect();
      collect.set_port(static_cast<int32_t>(forward.outputs.size()));
      collect.set_axis(0);
      collect.set_stash(true);
      if (reverse) collect.set_reverse(true);
      collect.set_result(graph_.value(whole).output_index);
      forward.outputs.push_back({both_.value(value).name, copies[Index(value)]});
    }
    if (options.has_goes_on() && !options.has_rounds_run()) {
      rounds_run_ = core::AddOutput(graph_, loop_, absl::StrCat(graph_.node(loop_).name, "/rounds_run"),
                                    {DType::kInt32, Shape(), {}});
      options.set_rounds_run(graph_.value(rounds_run_).output_index);
    }
    Node& node = graph_.node(loop_);
    node.subgraphs = {std::make_shared<const Graph>(std::move(forward))};
    forward_options_ = proto::MakeOptions(options);
    return absl::OkStatus();
  }

  absl::Status Finish(std::vector<ValueId>* result) {
    if (rounds_run_.valid()) {
      new_options_.set_only_rounds(static_cast<int32_t>(feeds_.size()));
      feeds_.push_back(rounds_run_);
    } else if (OfBranch()) {
      new_options_.set_only_rounds(static_cast<int32_t>(feeds_.size()));
      feeds_.push_back(FeedAt(options_.only_rounds()));
    }
    for (const auto& [scan, first] : firsts_) {
      new_options_.mutable_scan(scan)->set_first(static_cast<int32_t>(feeds_.size()));
      feeds_.push_back(first);
    }
    const NodeId id = graph_.AddNode({.name = around_.name(),
                                      .op = "loop",
                                      .options = proto::MakeOptions(new_options_),
                                      .inputs = feeds_,
                                      .output_types = result_types_,
                                      .loc = graph_.node(loop_).loc,
                                      .phase = Phase::kBackward,
                                      .forward = loop_,
                                      .subgraphs = {std::make_shared<const Graph>(std::move(gradient_))}});
    const std::vector<ValueId> outputs = graph_.node(id).outputs;
    for (const auto& [port, number] : results_) {
      ValueId& gradient = (*result)[static_cast<size_t>(port)];
      gradient = outputs[static_cast<size_t>(number)];
      SNUG_ASSIGN_OR_RETURN(gradient, OfWhole(gradient, port));
      const DType wanted = graph_.type(FeedAt(port)).dtype;
      if (graph_.type(gradient).dtype == wanted) continue;
      SNUG_ASSIGN_OR_RETURN(gradient, around_.Cast(gradient, wanted, absl::StrCat("input", port, "/cast")));
    }
    for (const auto& [product, number] : products_) {
      SNUG_ASSIGN_OR_RETURN(
          (*result)[static_cast<size_t>(product.input)],
          AddSummedProduct(around_, product, outputs[static_cast<size_t>(number)], options_.rounds()));
    }
    for (const SummedRows& rows : summed_.rows) {
      const Node& node = both_.node(both_.value(rows.gradient).producer);
      const ValueId dys = outputs[static_cast<size_t>(collected_dys_.at(rows.dy))];
      SNUG_ASSIGN_OR_RETURN((*result)[static_cast<size_t>(rows.input)],
                            around_.AddOne(node.op, {dys}, node.options, node.name));
    }
    graph_.node(loop_).options = forward_options_;
    return absl::OkStatus();
  }

  // Nothing flows back to slices of what is scanned that no round reads.
  absl::StatusOr<ValueId> OfWhole(ValueId gradient, int port) {
    const proto::NormalLoop::Along* const scan = ScanOf(port);
    const Shape& whole = graph_.type(FeedAt(port)).shape;
    if (OfBranch() && !IsCarry(port)) return around_.Reshape(gradient, whole, absl::StrCat("input", port, "/once"));
    if (scan == nullptr || scan->stash() || graph_.type(gradient).shape == whole) return gradient;
    const int axis = scan->axis();
    const int64_t begin = scan->reverse() ? whole[axis] - graph_.type(gradient).shape[axis] : 0;
    return around_.PartGradient(gradient, whole, axis, begin, absl::StrCat("input", port, "/whole"));
  }

  GraphBuilder& builder_;
  Graph& graph_;
  const NodeId loop_;
  const std::vector<ValueId> output_grads_;
  const std::vector<bool>& wanted_;
  const proto::NormalLoop options_;  // a copy: the node's change
  const Graph body_;
  ControlNodes around_;
  LoopPaths paths_;
  Graph both_;  // the body and its gradient
  std::vector<ValueId> carry_seeds_, collect_seeds_;
  std::unordered_map<ValueId, ValueId> gradients_;  // in both_
  SummedGradients summed_;                          // those that are made after the loop
  Graph gradient_;                                  // the new body
  GraphBuilder inner_builder_{builder_.registry(), &gradient_};
  std::vector<ValueId> mapped_;  // by value of both_: what it is in gradient_
  std::vector<ValueId> feeds_;
  std::vector<int> carry_ports_;
  std::vector<Stashed> stashes_;
  std::vector<std::pair<int, ValueId>> firsts_;  // scans that are a round late, and what the first round gets
  proto::NormalLoop new_options_;
  Options forward_options_;
  std::vector<ValueType> result_types_;
  std::vector<std::pair<int, int>> results_;  // an input of the loop, and the output of the new one
  std::vector<std::pair<SummedProduct, int>> products_;
  std::unordered_map<ValueId, int> collected_dys_;  // by dy in both_: a result of the new loop
  ValueId rounds_run_;
};

}  // namespace

absl::StatusOr<std::vector<ValueId>> DifferentiateLoop(GraphBuilder& builder, NodeId loop,
                                                       absl::Span<const ValueId> output_grads,
                                                       const std::vector<bool>& wanted) {
  return LoopDifferentiator(builder, loop, output_grads, wanted).Run();
}

}  // namespace snug::core
