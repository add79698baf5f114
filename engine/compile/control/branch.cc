#include "engine/compile/control/branch.h"

#include <absl/algorithm/container.h>
#include <absl/strings/str_cat.h>

#include <string>

#include "engine/base/status.h"
#include "engine/compile/control/body_copier.h"
#include "engine/compile/control/control_nodes.h"
#include "proto/internal.pb.h"

namespace snug::core {

absl::StatusOr<std::vector<ValueId>> SpreadBranch(GraphBuilder& builder, NodeId id, const std::vector<Graph>& bodies,
                                                  bool training) {
  ControlNodes nodes(builder, id);
  const std::vector<ValueId> inputs = builder.graph().node(id).inputs;
  const Options held = builder.graph().node(id).options;
  const auto& options = held.Get<proto::BranchNode>();
  const ValueId selector = inputs[0];
  const int64_t rows = nodes.type(selector).num_elements();
  std::vector<ValueId> taken(bodies.size());
  std::vector<std::vector<ValueId>> outputs(bodies.size());
  for (size_t k = 0; k < bodies.size(); ++k) {
    const std::string name = absl::StrCat(k);
    SNUG_ASSIGN_OR_RETURN(taken[k], nodes.Equals(selector, static_cast<int64_t>(k), absl::StrCat(name, "/taken")));
    std::vector<ValueId> feeds(inputs.begin() + 1, inputs.end());
    for (size_t i = 0; training && i < feeds.size(); ++i) {
      // What is no row of the selector's samples, such as a weight, is read by all of them.
      const ValueType& type = nodes.type(feeds[i]);
      const bool guarded = rows == 1 || (absl::c_linear_search(options.per_sample(), static_cast<int32_t>(i)) &&
                                         type.shape.rank() > 0 && type.shape[0] == rows);
      if (!guarded || !IsFloating(type.dtype)) continue;
      SNUG_ASSIGN_OR_RETURN(feeds[i], nodes.Gate(feeds[i], taken[k], absl::StrCat(name, "/gate", i)));
    }
    std::vector<int> wanted(bodies[k].outputs.size());
    for (size_t o = 0; o < wanted.size(); ++o) wanted[o] = static_cast<int>(o);
    outputs[k] = BodyCopier(builder, bodies[k]).Copy(feeds, wanted, absl::StrCat(nodes.name(), "/", k));
  }
  std::vector<ValueId> result = outputs.back();
  for (size_t o = 0; o < result.size(); ++o) {
    const std::string suffix = absl::StrCat("output", o);
    for (size_t k = bodies.size() - 1; k-- > 0;) {
      SNUG_ASSIGN_OR_RETURN(result[o], nodes.Choose(taken[k], outputs[k][o], result[o], absl::StrCat(suffix, "/", k)));
    }
    if (options.in_range()) continue;
    // A selector that is no body's number gives NaN.
    SNUG_ASSIGN_OR_RETURN(const ValueId below, nodes.IsAbove(selector, -1, absl::StrCat(suffix, "/from_first")));
    SNUG_ASSIGN_OR_RETURN(const ValueId above, nodes.IsAbove(selector, static_cast<int64_t>(bodies.size()) - 1,
                                                             absl::StrCat(suffix, "/beyond_last")));
    SNUG_ASSIGN_OR_RETURN(result[o], nodes.Spoil(above, result[o], absl::StrCat(suffix, "/above")));
    SNUG_ASSIGN_OR_RETURN(result[o], nodes.SpoilRest(below, result[o], absl::StrCat(suffix, "/below")));
  }
  return result;
}

}  // namespace snug::core
