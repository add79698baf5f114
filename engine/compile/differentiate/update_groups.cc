#include "engine/compile/differentiate/update_groups.h"

#include <absl/algorithm/container.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/str_join.h>
#include <absl/strings/strip.h>

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
    if (unnamed_ > 0) errors_.push_back(absl::StrCat("... and ", unnamed_, " more errors"));
    return absl::InvalidArgumentError(absl::StrJoin(errors_, "\n"));
  }

 private:
  void Error(const SourceLoc& loc, absl::string_view message) {
    if (errors_.size() == kMostNamed) {
      ++unnamed_;
      return;
    }
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
      if (matches) {
        other = absl::StrCat("\"", variable.name, "\" is frozen");
      } else {
        suggester.Consider(variable.name);
      }
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
    const auto loc = [&] { return locations_.UpdateLoc(k, "optimizer"); };
    for (const absl::Status& status :
         {CheckOptimizer(*optimizer, OptionPlaces()), CheckState(*optimizer, precision_, OptionPlaces())}) {
      if (!status.ok()) Error(loc(), absl::StrCat("update.", status.message()));
    }
    if (optimizer->has_average()) {
      Error(loc(), "update.optimizer.average: averages are of all parameters alike: say it in the network's optimizer");
    }
    if (optimizer_.has_average()) *optimizer->mutable_average() = optimizer_.average();
    // Of the file, which flags do not change: they change both.
    const double own = optimizer->learning_rate(), common = network_.optimizer().learning_rate();
    if (own == common) return;
    if (common != 0) {
      group.rate = own / common;
    } else {
      Error(loc(), absl::StrCat("update.optimizer.learning_rate: expected 0, as schedules change it with that of the "
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
  int64_t unnamed_ = 0;  // errors beyond those
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

}  // namespace snug::core
