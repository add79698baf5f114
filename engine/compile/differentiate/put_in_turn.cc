#include <absl/strings/str_cat.h>
#include <absl/types/span.h>

#include <algorithm>
#include <limits>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "engine/base/status.h"
#include "engine/compile/differentiate/update_groups.h"
#include "ops/graph_builder.h"
#include "proto/source_map.h"

namespace snug::core {
namespace {

// Sorts the nodes of a forward pass by turns, which are numbers of groups.
class Turns {
 public:
  Turns(Graph& graph, const SourceMap& locations, std::vector<UpdateGroup>& groups)
      : graph_(graph),
        locations_(locations),
        groups_(groups),
        turn_of_node_(graph.node_capacity(), kNone),
        lasts_(graph.value_capacity()) {
    for (size_t k = 0; k < groups.size(); ++k) {
      for (const ValueId parameter : groups[k].parameters) {
        lasts_[Index(parameter)] = {.until = static_cast<int>(k), .parameter = parameter};
      }
    }
  }

  absl::Status Run() {
    const std::vector<NodeId> order = graph_.ProgramOrder();
    for (size_t k = 0; k < groups_.size(); ++k) {
      for (const ValueId objective : groups_[k].objectives) TakeWhatIsNeeded(objective, static_cast<int>(k));
    }
    for (const NodeId id : order) {
      int& turn = turn_of_node_[Index(id)];
      if (turn != kNone) continue;
      // No objective needs it: it is there to be looked at, as soon as may be.
      turn = 0;
      figures_.insert(id);
      for (const ValueId input : graph_.node(id).inputs) turn = std::max(turn, TurnOf(input));
    }
    for (const NodeId id : order) SNUG_RETURN_IF_ERROR(CheckInputs(id));
    for (size_t k = 0; k < groups_.size(); ++k) SNUG_RETURN_IF_ERROR(CheckObjectives(static_cast<int>(k)));
    Sort();
    return absl::OkStatus();
  }

  // The latest of the turns of what these values are made in.
  int LatestOf(absl::Span<const ValueId> values) const {
    int latest = 0;
    for (const ValueId value : values) latest = std::max(latest, TurnOf(value));
    return latest;
  }

 private:
  static constexpr int kNone = -1;
  static constexpr int kForever = std::numeric_limits<int>::max();

  // A value is what it would be if it were computed now until the update `until` is done, which changes the parameter.
  struct Lasts {
    int until = kForever;
    ValueId parameter;
  };

  template <class Id>
  static size_t Index(Id id) {
    return static_cast<size_t>(id.index);
  }

  int TurnOf(ValueId value) const {
    if (!value.valid()) return 0;
    const NodeId producer = graph_.value(value).producer;
    return producer.valid() ? turn_of_node_[Index(producer)] : 0;
  }

  void TakeWhatIsNeeded(ValueId objective, int turn) {
    std::vector<ValueId> needed = {objective};
    while (!needed.empty()) {
      const ValueId value = needed.back();
      needed.pop_back();
      const NodeId producer = value.valid() ? graph_.value(value).producer : NodeId();
      if (!producer.valid() || turn_of_node_[Index(producer)] != kNone) continue;
      turn_of_node_[Index(producer)] = turn;
      const std::vector<ValueId>& inputs = graph_.node(producer).inputs;
      needed.insert(needed.end(), inputs.begin(), inputs.end());
    }
  }

  // Whether the value, if it is read in that turn, is what it would be if it were computed there.
  bool IsCurrent(ValueId value, int turn) const {
    return graph_.value(value).variable.valid() || lasts_[Index(value)].until >= turn;
  }

  absl::Status CheckInputs(NodeId id) {
    const int turn = turn_of_node_[Index(id)];
    Lasts lasts;
    for (size_t i = 0; i < graph_.node(id).inputs.size(); ++i) {
      ValueId input = graph_.node(id).inputs[i];
      if (!input.valid()) continue;
      if (!IsCurrent(input, turn)) {
        input = CastAnew(input, turn, id);
        if (!input.valid()) return Outdated(id, i);
        graph_.node(id).inputs[i] = input;
      }
      const Lasts& of_input = lasts_[Index(input)];
      // A parameter that was changed before this turn changes no more.
      if (of_input.until >= turn && of_input.until < lasts.until) lasts = of_input;
    }
    for (const ValueId output : graph_.node(id).outputs) lasts_[Index(output)] = lasts;
    return absl::OkStatus();
  }

  // A cast of a parameter alone, done again in the reader's turn; invalid: the value is no such cast.
  ValueId CastAnew(ValueId value, int turn, NodeId reader) {
    const NodeId producer = graph_.value(value).producer;
    const Node& cast = graph_.node(producer);
    if (cast.op != "cast" || !graph_.value(cast.inputs[0]).variable.valid()) return ValueId();
    ValueId& anew = cast_anew_[{value, turn}];
    if (anew.valid()) return anew;
    NodeSpec spec{.name = cast.name,
                  .op = cast.op,
                  .options = cast.options,
                  .inputs = cast.inputs,
                  .output_types = {graph_.type(value)},
                  .loc = cast.loc};
    graph_.SetInsertionPoint(reader);
    const NodeId node = graph_.AddNode(std::move(spec));
    graph_.SetInsertionPoint(NodeId());
    anew = graph_.node(node).outputs[0];
    turn_of_node_.resize(graph_.node_capacity(), kNone);
    turn_of_node_[Index(node)] = turn;
    lasts_.resize(graph_.value_capacity());  // the parameter changes no more after that turn
    return anew;
  }

  std::string WhatChanges(ValueId value) const {
    const Lasts& lasts = lasts_[Index(value)];
    return absl::StrCat("before update ", lasts.until + 1, " changes \"", graph_.value(lasts.parameter).name, "\"");
  }

  absl::Status Outdated(NodeId id, size_t i) const {
    const Node& node = graph_.node(id);
    const ValueId input = node.inputs[i];
    const int turn = turn_of_node_[Index(id)];
    constexpr const char* kOwn =
        "give it layers of its own to read, which use the same parameters (param { tie: \"...\" })";
    std::string why = absl::StrCat("input ", i, " \"", graph_.value(input).name, "\" is computed in turn ",
                                   TurnOf(input) + 1, ", ", WhatChanges(input), ", and ");
    if (figures_.contains(id)) {
      const auto later = std::find_if(node.inputs.begin(), node.inputs.end(),
                                      [&](ValueId value) { return value.valid() && TurnOf(value) == turn; });
      const std::string& name = graph_.value(*later).name;
      absl::StrAppend(
          &why, "input ", later - node.inputs.begin(), " \"", name, "\" in turn ", turn + 1,
          ", after that: a figure is of one turn; fetch both and compare them outside of the network (output: "
          "[\"",
          graph_.value(input).name, "\", \"", name, "\"]), or ", kOwn);
    } else {
      absl::StrAppend(&why, "this layer is computed after that, for update ", turn + 1, ": ", kOwn);
    }
    return NodeError(node.loc, node.name, node.op, absl::InvalidArgumentError(why));
  }

  absl::Status CheckObjectives(int k) const {
    const std::vector<ValueId>& objectives = groups_[static_cast<size_t>(k)].objectives;
    for (size_t i = 0; i < objectives.size(); ++i) {
      if (IsCurrent(objectives[i], k)) continue;
      return At(locations_.UpdateLoc(k, "objective", static_cast<int>(i)),
                absl::InvalidArgumentError(absl::StrCat(
                    "update: objective \"", graph_.value(objectives[i]).name, "\" is computed in turn ",
                    TurnOf(objectives[i]) + 1, ", ", WhatChanges(objectives[i]), ", and update ", k + 1,
                    " comes after that: give it layers of its own, which use the same parameters (param { tie: "
                    "\"...\" })")));
    }
    return absl::OkStatus();
  }

  void Sort() {
    const std::vector<NodeId> order = graph_.ProgramOrder();
    std::vector<NodeId> first(groups_.size());
    for (size_t k = 0; k < groups_.size(); ++k) {
      for (const NodeId id : order) {
        if (turn_of_node_[Index(id)] != static_cast<int>(k)) continue;
        graph_.MoveBefore(id, NodeId());
        if (!first[k].valid()) first[k] = id;
      }
    }
    for (size_t k = groups_.size(); k-- > 1;) {
      groups_[k - 1].before = first[k].valid() ? first[k] : groups_[k].before;
    }
  }

  Graph& graph_;
  const SourceMap& locations_;
  std::vector<UpdateGroup>& groups_;
  std::vector<int> turn_of_node_;
  std::set<NodeId> figures_;  // which no objective needs
  std::vector<Lasts> lasts_;  // by value
  std::map<std::pair<ValueId, int>, ValueId> cast_anew_;
};

}  // namespace

absl::Status PutInTurn(Imported& imported, const SourceMap& locations, std::vector<UpdateGroup>& groups) {
  Turns turns(imported.graph, locations, groups);
  if (groups.size() > 1) SNUG_RETURN_IF_ERROR(turns.Run());
  for (size_t i = 0; i < imported.statistic_updates.size(); ++i) {
    const NodeSpec& update = imported.statistic_updates[i];
    // Layers of every turn read a state as the step before left it.
    const bool at_last = groups.size() == 1 || update.op == "store";
    const size_t turn = at_last ? groups.size() - 1 : static_cast<size_t>(turns.LatestOf(update.inputs));
    groups[turn].statistics.push_back(i);
  }
  return absl::OkStatus();
}

}  // namespace snug::core
