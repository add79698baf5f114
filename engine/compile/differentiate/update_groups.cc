#include "engine/compile/differentiate/update_groups.h"

#include <absl/algorithm/container.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/str_join.h>
#include <absl/strings/strip.h>

#include <algorithm>
#include <limits>
#include <map>
#include <string>
#include <utility>

#include "engine/base/status.h"
#include "engine/base/text/glob.h"
#include "engine/base/text/suggest.h"
#include "engine/compile/control/normal_form.h"
#include "engine/compile/differentiate/differentiate.h"
#include "engine/compile/import/check_optimizer.h"
#include "engine/compile/pipeline.h"
#include "proto/network.pb.h"
#include "proto/source_map.h"

namespace snug::core {
namespace {

constexpr size_t kMostNamed = 20;  // errors

class GroupFinder {
 public:
  GroupFinder(const Graph& graph, const proto::Network& network, const SourceMap& locations,
              const proto::Optimizer& optimizer, DType precision)
      : graph_(graph),
        network_(network),
        locations_(locations),
        optimizer_(optimizer),
        precision_(precision),
        trained_(TrainedParameters(graph)) {}

  absl::StatusOr<std::vector<UpdateGroup>> Run() {
    std::vector<UpdateGroup> groups;
    for (int k = 0; k < network_.update_size(); ++k) {
      UpdateGroup& group = groups.emplace_back();
      FindObjectives(k, group);
      FindParameters(k, group);
      FindOptimizer(k, group);
    }
    for (int i = 0; i < network_.objective_size(); ++i) {
      if (minimised_.contains(graph_.objectives[static_cast<size_t>(i)])) continue;
      Error(locations_.ObjectiveLoc(i), absl::StrCat("objective \"", network_.objective(i),
                                                     "\": no update minimises it; name it in one: update { objective: "
                                                     "\"",
                                                     network_.objective(i), "\" ... }"));
    }
    for (const ValueId parameter : trained_) {
      if (changed_by_.contains(parameter)) continue;
      const Variable& variable = graph_.variable(graph_.value(parameter).variable);
      Error(variable.loc,
            absl::StrCat("parameter \"", variable.name,
                         "\": no update changes it; name it in one (update { parameter: \"...\" }), or freeze it"));
    }
    if (errors_.empty()) return groups;
    if (errors_.size() > kMostNamed) {
      const size_t more = errors_.size() - kMostNamed;
      errors_.resize(kMostNamed);
      errors_.push_back(absl::StrCat("... and ", more, " more errors"));
    }
    return absl::InvalidArgumentError(absl::StrJoin(errors_, "\n"));
  }

 private:
  void Error(const SourceLoc& loc, absl::string_view message) {
    errors_.emplace_back(At(loc, absl::InvalidArgumentError(message)).message());
  }

  void FindObjectives(int k, UpdateGroup& group) {
    const proto::AlternatingUpdate& update = network_.update(k);
    if (update.objective_size() == 0) {
      Error(locations_.UpdateLoc(k),
            "update: expected the objectives that it minimises, objective: \"...\"; found none");
    }
    for (int i = 0; i < update.objective_size(); ++i) {
      const std::string& name = update.objective(i);
      Suggester suggester(name);
      ValueId found;
      for (int n = 0; n < network_.objective_size(); ++n) {
        suggester.Consider(network_.objective(n));
        const bool same = absl::StripSuffix(network_.objective(n), ":0") == absl::StripSuffix(name, ":0");
        if (same) found = graph_.objectives[static_cast<size_t>(n)];
      }
      if (!found.valid()) {
        Error(locations_.UpdateLoc(k, "objective", i),
              absl::StrCat("update: \"", name,
                           "\" is no objective of the network: expected one of those that it names "
                           "by objective: \"...\"",
                           suggester.Question()));
      } else if (absl::c_linear_search(group.objectives, found)) {
        Error(locations_.UpdateLoc(k, "objective", i), absl::StrCat("update: objective \"", name, "\" is named twice"));
      } else {
        group.objectives.push_back(found);
        minimised_[found] = k;
      }
    }
  }

  void FindParameters(int k, UpdateGroup& group) {
    const proto::AlternatingUpdate& update = network_.update(k);
    if (update.parameter_size() == 0) {
      Error(locations_.UpdateLoc(k),
            "update: expected the parameters that it changes, parameter: \"generator.*\" or the like; found none");
    }
    std::vector<bool> matched(static_cast<size_t>(update.parameter_size()), false);
    for (const ValueId parameter : trained_) {
      const std::string& name = graph_.value(parameter).name;
      int matching = -1;
      for (int p = update.parameter_size() - 1; p >= 0; --p) {
        if (!GlobMatches(update.parameter(p), name)) continue;
        matched[static_cast<size_t>(p)] = true;
        matching = p;
      }
      if (matching < 0) continue;
      const auto [it, is_new] = changed_by_.emplace(parameter, k);
      if (!is_new) {
        Error(locations_.UpdateLoc(k, "parameter", matching),
              absl::StrCat("update: parameter \"", name, "\" is changed by update ", it->second + 1,
                           " already: expected each in one update"));
      }
      group.parameters.push_back(parameter);
    }
    for (int p = 0; p < update.parameter_size(); ++p) {
      if (!matched[static_cast<size_t>(p)]) Unmatched(k, p);
    }
  }

  void Unmatched(int k, int p) {
    const std::string& pattern = network_.update(k).parameter(p);
    Suggester suggester(pattern);
    std::string other = "no parameter has such a name";
    for (const Variable& variable : graph_.variables()) {
      const bool matches = GlobMatches(pattern, variable.name);
      if (variable.role != VariableRole::kParameter) {
        if (matches) other = absl::StrCat("\"", variable.name, "\" is no parameter");
        continue;
      }
      if (matches) other = absl::StrCat("\"", variable.name, "\" is frozen");
      suggester.Consider(variable.name);
    }
    Error(locations_.UpdateLoc(k, "parameter", p),
          absl::StrCat("update: \"", pattern,
                       "\": expected the name of a parameter that is trained, or a pattern of "
                       "such names; ",
                       other, suggester.Question()));
  }

  void FindOptimizer(int k, UpdateGroup& group) {
    const proto::AlternatingUpdate& update = network_.update(k);
    auto optimizer = std::make_shared<proto::Optimizer>(update.has_optimizer() ? update.optimizer() : optimizer_);
    group.optimizer = optimizer;
    group.learning_rate = optimizer_.learning_rate();
    if (!update.has_optimizer()) return;
    const SourceLoc loc = locations_.UpdateLoc(k, "optimizer");
    for (const absl::Status& status :
         {CheckOptimizer(*optimizer, OptionPlaces()), CheckState(*optimizer, precision_, OptionPlaces())}) {
      if (!status.ok()) Error(loc, absl::StrCat("update.", status.message()));
    }
    if (optimizer->has_average()) {
      Error(loc, "update.optimizer.average: averages are of all parameters alike: say it in the network's optimizer");
    }
    if (optimizer_.has_average()) *optimizer->mutable_average() = optimizer_.average();
    const double own = optimizer->learning_rate(), common = optimizer_.learning_rate();
    if (own == common) return;
    if (common != 0) {
      group.rate = own / common;
    } else {
      Error(loc, absl::StrCat("update.optimizer.learning_rate: expected 0, as schedules change it with that of the "
                              "network's optimizer, which is 0; found ",
                              own));
    }
  }

  const Graph& graph_;
  const proto::Network& network_;
  const SourceMap& locations_;
  const proto::Optimizer& optimizer_;
  const DType precision_;
  const std::vector<ValueId> trained_;
  std::map<ValueId, int> minimised_, changed_by_;  // by which update
  std::vector<std::string> errors_;
};

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
    return NodeError(
        node.loc, node.name, node.op,
        absl::InvalidArgumentError(absl::StrCat(
            "input ", i, " \"", graph_.value(input).name, "\" is computed in turn ", TurnOf(input) + 1, ", ",
            WhatChanges(input), ", and this layer is computed after that, for update ", turn_of_node_[Index(id)] + 1,
            ": give it layers of its own to read, which use the same parameters (param { tie: \"...\" })")));
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
  std::vector<Lasts> lasts_;  // by value
  std::map<std::pair<ValueId, int>, ValueId> cast_anew_;
};

}  // namespace

absl::Status CheckUpdatesInTurn(const proto::Network& network, const SourceMap& locations, const Graph& graph,
                                const CompileOptions& options) {
  if (network.update_size() == 0) return absl::OkStatus();
  std::string why;
  if (HasControlFlow(graph)) {
    why = "networks with loops or branches are trained by one update: expected no `update` here";
  } else if (options.micro_batches.count > 1) {
    why = absl::StrCat("a step of ", options.micro_batches.count,
                       " micro-batches makes one update of all parameters: expected accumulate 1");
  } else if (!options.gradients.empty()) {
    why = absl::StrCat("each update has gradients of its own: expected no gradient of \"", options.gradients[0],
                       "\" for all together");
  } else if (!options.sparse_tables.patterns.empty()) {
    why = "sparse-tables is for networks that one update trains";
  }
  return why.empty() ? absl::OkStatus()
                     : At(locations.UpdateLoc(0), absl::InvalidArgumentError(absl::StrCat("update: ", why)));
}

absl::StatusOr<std::vector<UpdateGroup>> FindUpdateGroups(const Imported& imported, const proto::Network& network,
                                                          const SourceMap& locations, const proto::Optimizer& optimizer,
                                                          DType precision) {
  if (network.update_size() > 0) {
    return GroupFinder(imported.graph, network, locations, optimizer, precision).Run();
  }
  UpdateGroup all{.objectives = imported.graph.objectives, .parameters = TrainedParameters(imported.graph)};
  all.learning_rate = optimizer.learning_rate();
  all.optimizer = std::make_shared<const proto::Optimizer>(optimizer);
  return std::vector<UpdateGroup>{std::move(all)};
}

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
