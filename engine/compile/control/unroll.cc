#include "engine/compile/control/unroll.h"

#include <absl/strings/str_cat.h>

#include <memory>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "engine/base/status.h"
#include "engine/compile/control/body_copier.h"
#include "engine/compile/control/control_nodes.h"
#include "engine/compile/control/rounds.h"
#include "ops/graph_builder.h"
#include "proto/internal.pb.h"
#include "proto/loops.pb.h"

namespace snug::core {
namespace {

class Unroller {
 public:
  Unroller(Graph& graph, const OpRegistry& registry) : graph_(graph), registry_(registry), builder_(registry, &graph) {}

  absl::StatusOr<std::unordered_map<ValueId, ValueId>> Run(absl::Span<const ValueId> kept) {
    for (const Output& output : graph_.outputs) needed_whole_.insert(output.value);
    needed_whole_.insert(graph_.objectives.begin(), graph_.objectives.end());
    needed_whole_.insert(kept.begin(), kept.end());
    for (NodeId id = graph_.first_node(); id.valid();) {
      const NodeId before = graph_.node(id).previous;
      absl::StatusOr<bool> unrolled = Visit(id);
      if (!unrolled.ok()) {
        const Node& node = graph_.node(id);
        return NodeError(node.loc, node.name, node.op, unrolled.status());
      }
      // What takes the place of a loop may have loops in it.
      id = !*unrolled ? graph_.node(id).next : before.valid() ? graph_.node(before).next : graph_.first_node();
    }
    graph_.SetInsertionPoint(NodeId());
    for (Output& output : graph_.outputs) Replace(output.value);
    for (ValueId& objective : graph_.objectives) Replace(objective);
    std::unordered_map<ValueId, ValueId> last = replaced_;
    for (auto& [value, replacement] : last) Replace(replacement);
    return last;
  }

 private:
  // What is collected, slice by slice along an axis.
  struct Collected {
    NodeId loop;
    int number = 0;
    int axis = 0;
    bool stash = false;
    Shape slice;             // the shape of each part
    bool have_axis = false;  // whether parts have the axis
    std::vector<ValueId> parts;
  };

  void Replace(ValueId& value) const {
    for (auto it = replaced_.find(value); it != replaced_.end(); it = replaced_.find(value)) value = it->second;
  }

  const proto::NormalLoop& OptionsOf(NodeId id) const { return graph_.node(id).options.Get<proto::NormalLoop>(); }

  // Returns whether the node has gone.
  absl::StatusOr<bool> Visit(NodeId id) {
    const bool loop = graph_.node(id).op == "loop";
    const bool unrolls = loop && !OptionsOf(id).rolled();
    for (ValueId& input : graph_.node(id).inputs) Replace(input);
    graph_.SetInsertionPoint(id);
    for (size_t i = 0; i < graph_.node(id).inputs.size(); ++i) {
      const ValueId input = graph_.node(id).inputs[i];
      const auto found = collected_.find(input);
      if (found == collected_.end() || (unrolls && ScansParts(id, static_cast<int>(i), found->second))) continue;
      SNUG_RETURN_IF_ERROR(Whole(input).status());
    }
    for (ValueId& input : graph_.node(id).inputs) Replace(input);  // several may be the same
    if (unrolls) {
      SNUG_RETURN_IF_ERROR(Unroll(id));
      graph_.RemoveNode(id);
      return true;
    }
    if (loop) {
      Graph body = *graph_.node(id).subgraphs[0];
      SNUG_RETURN_IF_ERROR(UnrollLoops(body, registry_).status());
      graph_.node(id).subgraphs[0] = std::make_shared<const Graph>(std::move(body));
    }
    return graph_.node(id).op == "in_count" ? CompareWithNumber(id) : false;
  }

  // Whether each part is what a round reads.
  bool ScansParts(NodeId id, int input, const Collected& collected) const {
    const proto::NormalLoop& options = OptionsOf(id);
    const Graph& body = *graph_.node(id).subgraphs[0];
    for (const proto::NormalLoop::Along& scan : options.scan()) {
      if (scan.port() != input) continue;
      return scan.axis() == collected.axis && scan.stash() == collected.stash &&
             static_cast<int64_t>(collected.parts.size()) == options.rounds() &&
             collected.slice == body.type(body.inputs()[static_cast<size_t>(input)]).shape;
    }
    return false;
  }

  // In a straight line, the number of the round is known: compare does what in_count does, on every device.
  absl::StatusOr<bool> CompareWithNumber(NodeId id) {
    const NodeId producer = graph_.value(graph_.node(id).inputs[1]).producer;
    if (!producer.valid() || graph_.node(producer).op != "fill") return false;
    const auto round = static_cast<int64_t>(graph_.node(producer).options.Get<proto::Fill>().value());
    const std::string name = absl::StrCat(graph_.node(id).name, "/known");
    ControlNodes nodes(builder_, "", graph_.node(id).loc, graph_.node(id).phase);
    SNUG_ASSIGN_OR_RETURN(replaced_[graph_.node(id).outputs[0]], nodes.IsAbove(graph_.node(id).inputs[0], round, name));
    graph_.RemoveNode(id);
    return true;
  }

  // Puts what is collected side by side, once, at the insertion point.
  absl::StatusOr<ValueId> Whole(ValueId value) {
    const Collected collected = std::move(collected_.extract(value).mapped());
    ControlNodes nodes(builder_, collected.loop);
    const std::string suffix = absl::StrCat("collect", collected.number);
    std::vector<ValueId> parts = collected.parts;
    for (ValueId& part : parts) {
      Replace(part);
      if (collected_.contains(part)) {
        SNUG_ASSIGN_OR_RETURN(part, Whole(part));
      }
    }
    for (size_t i = 0; collected.stash && i < parts.size(); ++i) {
      const Shape flat({nodes.type(parts[i]).num_elements()});
      SNUG_ASSIGN_OR_RETURN(parts[i], nodes.Reshape(parts[i], flat, absl::StrCat(suffix, "/flat", i)));
    }
    SNUG_ASSIGN_OR_RETURN(replaced_[value], collected.have_axis
                                                ? nodes.Join(std::move(parts), collected.axis, suffix)
                                                : nodes.Collect(std::move(parts), collected.axis, suffix));
    // It may be what a loop collects that is unrolled later, and that nobody else reads.
    needed_whole_.insert(replaced_[value]);
    return replaced_[value];
  }

  absl::StatusOr<std::vector<ValueId>> SlicesOf(ControlNodes& nodes, ValueId whole,
                                                const proto::NormalLoop::Along& scan, const Shape& shape, int number,
                                                int64_t rounds) {
    const auto found = collected_.find(whole);
    if (found != collected_.end()) return found->second.parts;
    const std::string suffix = absl::StrCat("scan", number);
    const Shape& all = nodes.type(whole).shape;
    if (!scan.stash() && shape.rank() == all.rank()) {
      return nodes.Cuts(whole, scan.axis(), shape[scan.axis()], rounds, scan.reverse(), suffix);
    }
    SNUG_ASSIGN_OR_RETURN(std::vector<ValueId> slices, nodes.Slices(whole, scan.axis(), suffix));
    for (size_t i = 0; scan.stash() && i < slices.size(); ++i) {
      SNUG_ASSIGN_OR_RETURN(slices[i], nodes.Reshape(slices[i], shape, absl::StrCat(suffix, "/as_it_was", i)));
    }
    return slices;
  }

  absl::Status Unroll(NodeId id) {
    const Node loop = graph_.node(id);  // a copy: nodes move when others are added
    const auto& options = loop.options.Get<proto::NormalLoop>();
    const Graph& body = *loop.subgraphs[0];
    const int64_t rounds = options.rounds();
    ControlNodes nodes(builder_, id);
    BodyCopier copier(builder_, body);
    std::vector<ValueId> feeds(loop.inputs.begin(), loop.inputs.begin() + static_cast<int64_t>(body.inputs().size()));
    std::vector<std::vector<ValueId>> slices;
    for (int k = 0; k < options.scan_size(); ++k) {
      const auto port = static_cast<size_t>(options.scan(k).port());
      SNUG_ASSIGN_OR_RETURN(std::vector<ValueId> parts, SlicesOf(nodes, feeds[port], options.scan(k),
                                                                 body.type(body.inputs()[port]).shape, k, rounds));
      slices.push_back(std::move(parts));
    }
    std::vector<int> wanted;
    for (const proto::NormalLoop::Carry& carry : options.carry()) wanted.push_back(carry.output());
    for (const proto::NormalLoop::Along& collect : options.collect()) wanted.push_back(collect.port());
    bool reads_index = false;
    for (size_t o = 0; options.has_index() && o < wanted.size(); ++o) {
      reads_index = reads_index || copier.Depends(wanted[o], options.index());
    }
    std::vector<std::vector<ValueId>> parts(static_cast<size_t>(options.collect_size()),
                                            std::vector<ValueId>(static_cast<size_t>(rounds)));
    for (int64_t n = 0; n < rounds; ++n) {
      const int64_t round = RoundOf(n, rounds, options.backwards());
      for (int k = 0; k < options.scan_size(); ++k) {
        const proto::NormalLoop::Along& scan = options.scan(k);
        ValueId& feed = feeds[static_cast<size_t>(scan.port())];
        const int64_t of = round - (scan.has_first() ? 1 : 0);
        feed = of < 0 ? loop.inputs[static_cast<size_t>(scan.first())]
                      : slices[static_cast<size_t>(k)][static_cast<size_t>(PlaceOfRound(of, rounds, scan.reverse()))];
      }
      if (reads_index) {
        SNUG_ASSIGN_OR_RETURN(feeds[static_cast<size_t>(options.index())], nodes.RoundNumber(round));
      }
      const std::vector<ValueId> outputs = copier.Copy(feeds, wanted, absl::StrCat(loop.name, "/", round),
                                                       loop.random_id + RandomShift(options.key(), round));
      for (int k = 0; k < options.carry_size(); ++k) {
        feeds[static_cast<size_t>(options.carry(k).input())] = outputs[static_cast<size_t>(k)];
      }
      for (int k = 0; k < options.collect_size(); ++k) {
        parts[static_cast<size_t>(k)][static_cast<size_t>(PlaceOfRound(round, rounds, options.collect(k).reverse()))] =
            outputs[static_cast<size_t>(options.carry_size() + k)];
      }
    }
    for (const proto::NormalLoop::Carry& carry : options.carry()) {
      if (!carry.has_result()) continue;
      replaced_[loop.outputs[static_cast<size_t>(carry.result())]] = feeds[static_cast<size_t>(carry.input())];
    }
    if (options.has_rounds_run()) {  // a straight line runs all of them, and masks say which count
      const ValueId rounds_run = loop.outputs[static_cast<size_t>(options.rounds_run())];
      SNUG_ASSIGN_OR_RETURN(replaced_[rounds_run], nodes.RoundNumber(rounds));
    }
    for (int k = 0; k < options.collect_size(); ++k) {
      const proto::NormalLoop::Along& collect = options.collect(k);
      const ValueId whole = loop.outputs[static_cast<size_t>(collect.result())];
      const Shape& slice = body.type(body.outputs[static_cast<size_t>(collect.port())].value).shape;
      collected_[whole] = {.loop = id,
                           .number = k,
                           .axis = collect.axis(),
                           .stash = collect.stash(),
                           .slice = slice,
                           .have_axis = !collect.stash() && slice.rank() == graph_.type(whole).shape.rank(),
                           .parts = std::move(parts[static_cast<size_t>(k)])};
      if (needed_whole_.contains(whole)) SNUG_RETURN_IF_ERROR(Whole(whole).status());
    }
    return absl::OkStatus();
  }

  Graph& graph_;
  const OpRegistry& registry_;
  GraphBuilder builder_;
  std::unordered_set<ValueId> needed_whole_;
  std::unordered_map<ValueId, ValueId> replaced_;
  std::unordered_map<ValueId, Collected> collected_;  // by outputs of loops that are unrolled
};

}  // namespace

absl::StatusOr<std::unordered_map<ValueId, ValueId>> UnrollLoops(Graph& graph, const OpRegistry& registry,
                                                                 absl::Span<const ValueId> kept) {
  return Unroller(graph, registry).Run(kept);
}

}  // namespace snug::core
