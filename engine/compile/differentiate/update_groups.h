// Which updates a step makes, and what each is computed from. Mostly there is one: all objectives train all parameters.
// A network that says `update { }` has several, one after the other, as the two of a generative adversarial network:
//
//   forward 1, backward 1, update 1; forward 2, backward 2, update 2; ...
//
// A layer belongs to the first update whose objectives need it, and is computed once: what is read from an earlier turn
// is what it was then. So a value that follows from parameters which an update in between has changed may not be read
// after it (PutInTurn refuses it): it would be of parameters that are no more, and its gradient of neither.
#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <memory>
#include <vector>

#include "engine/compile/import/import.h"
#include "engine/graph/graph.h"

namespace snug::proto {
class Network;
class Optimizer;
}  // namespace snug::proto

namespace snug::core {
class SourceMap;
struct CompileOptions;

struct UpdateGroup {
  std::vector<ValueId> objectives;  // whose sum is minimised
  std::vector<ValueId> parameters;  // that are changed for that
  std::vector<size_t> statistics;   // which of Imported::statistic_updates follow from layers of this turn
  std::shared_ptr<const proto::Optimizer> optimizer;
  // Schedules know the learning rate of the network's optimizer; that of the group is so many times that.
  double learning_rate = 0, rate = 1;
  NodeId before;  // the first node of the next turn; invalid: there is none
};

// Checks that nothing is asked for that updates one after the other cannot do.
absl::Status CheckUpdatesInTurn(const proto::Network& network, const SourceMap& locations, const Graph& graph,
                                const CompileOptions& options);

// Finds the updates of an imported network; `optimizer` is the one of those that have none of their own. Errors are
// located, and all come at once.
absl::StatusOr<std::vector<UpdateGroup>> FindUpdateGroups(const Imported& imported, const proto::Network& network,
                                                          const SourceMap& locations, const proto::Optimizer& optimizer,
                                                          DType precision);

// Brings the nodes of the forward pass in the sequence of the updates (put_in_turn.cc), and finds each group's `before`
// and `statistics`. Copies of parameters in bfloat16 are made anew where parameters were changed.
absl::Status PutInTurn(Imported& imported, const SourceMap& locations, std::vector<UpdateGroup>& groups);

}  // namespace snug::core
