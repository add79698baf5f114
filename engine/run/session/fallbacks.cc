#include "engine/run/session/fallbacks.h"

#include <absl/strings/str_cat.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <utility>

#include "ops/graph_builder.h"

namespace snug::core {
namespace {

// Returns "node \"fc1\" (dense)"; for many nodes it names the first few.
std::string NamesOf(absl::Span<const Fallback* const> nodes) {
  constexpr size_t kNamed = 3;
  std::string names = nodes.size() == 1 ? "node" : absl::StrCat(nodes.size(), " nodes:");
  for (size_t i = 0; i < std::min(nodes.size(), kNamed); ++i) {
    absl::StrAppend(&names, i > 0 ? "," : "", " \"", nodes[i]->node, "\" (", nodes[i]->op, ")");
  }
  if (nodes.size() > kNamed) absl::StrAppend(&names, " and ", nodes.size() - kNamed, " more");
  return names;
}

}  // namespace

absl::Status Fallbacks::Add(const Compiled& compiled, absl::Span<const Executor::Refused> refused) {
  if (refused.empty()) return absl::OkStatus();
  const size_t before = all_.size();
  for (const Executor::Refused& one : refused) {
    const Step& step = compiled.executable.steps[one.step];
    const Node& node = compiled.graph.node(step.node);
    all_.push_back(
        {node.name, node.op, std::string(step.kernel->library), one.why, std::string(step.instead.kernel->name)});
    if (!strict_) continue;
    return NodeError(
        node.loc, node.name, node.op,
        absl::FailedPreconditionError(absl::StrCat(
            all_.back().library, " does not serve it, and --strict-kernels wants no other kernel: ", one.why)));
  }
  std::map<std::pair<std::string, std::string>, std::vector<const Fallback*>> by_reason;
  for (size_t i = before; i < all_.size(); ++i) by_reason[{all_[i].library, all_[i].why}].push_back(&all_[i]);
  for (const auto& [reason, nodes] : by_reason) {
    const std::string line = absl::StrCat("our own kernel serves in place of ", reason.first, "'s, more slowly, for ",
                                          NamesOf(nodes), ": ", reason.second);
    report_ != nullptr ? report_(line) : static_cast<void>(std::fprintf(stderr, "%s\n", line.c_str()));
  }
  return absl::OkStatus();
}

void WriteFallbacks(const std::vector<Fallback>& fallbacks, Json& json) {
  json.Key("fallbacks").Number(static_cast<int64_t>(fallbacks.size())).Key("fallback_nodes").Array();
  for (const Fallback& one : fallbacks) {
    json.Object().Key("node").String(one.node).Key("op").String(one.op);
    json.Key("library").String(one.library).Key("why").String(one.why).Key("instead").String(one.instead).End();
  }
  json.End();
}

void WriteKernels(const Compiled& compiled, Json& json) {
  std::map<absl::string_view, int64_t> steps;
  for (const Step& step : compiled.executable.steps) ++steps[step.kernel->name];
  json.Key("kernels").Object();
  for (const auto& [name, count] : steps) json.Key(name).Number(count);
  json.End();
}

}  // namespace snug::core
