#include "engine/run/session/fallbacks.h"

#include <absl/strings/str_cat.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <tuple>
#include <utility>

#include "engine/base/status.h"
#include "ops/graph_builder.h"

namespace snug::core {
namespace {

// Returns what serves, in words: "our own kernel".
std::string InWords(absl::string_view library, absl::string_view instead) {
  if (instead == kAnotherAlgorithm) return absl::StrCat("another of ", library, "'s algorithms");
  const bool ours = instead == "own" || instead == "plain";
  return absl::StrCat(ours ? "our " : "the ", instead, " kernel");
}

// Returns `conv "c1", "c2", "c3" and 4 more; dense "fc"`.
std::string NamesOf(const std::map<std::string, std::vector<std::string>>& nodes_by_op) {
  constexpr size_t kNamed = 3;
  std::string names;
  for (const auto& [op, nodes] : nodes_by_op) {
    absl::StrAppend(&names, names.empty() ? "" : "; ", op);
    for (size_t i = 0; i < std::min(nodes.size(), kNamed); ++i) {
      absl::StrAppend(&names, i > 0 ? "," : "", " \"", nodes[i], "\"");
    }
    if (nodes.size() > kNamed) absl::StrAppend(&names, " and ", nodes.size() - kNamed, " more");
  }
  return names;
}

}  // namespace

absl::Status Fallbacks::AddPassedOver(const Compiled& compiled) {
  const size_t before = all_.size();
  for (const NodeId id : compiled.graph.ProgramOrder()) {
    const KernelChoice& choice = compiled.kernels[static_cast<size_t>(id.index)];
    for (const PassedOver& row : choice.passed_over) {
      if (row.library.empty() || row.reason.cause == NotServed::Cause::kByDesign) continue;
      SNUG_RETURN_IF_ERROR(Add(compiled.graph.node(id), row.library, row.reason.why, choice.kernel->name));
    }
  }
  SayFrom(before);
  return absl::OkStatus();
}

absl::Status Fallbacks::AddRefused(const Compiled& compiled, absl::Span<const Executor::Refused> refused) {
  const size_t before = all_.size();
  for (const Executor::Refused& one : refused) {
    const Step& step = compiled.executable.steps[one.step];
    SNUG_RETURN_IF_ERROR(Add(compiled.graph.node(step.node), step.kernel->library, one.why,
                             one.another_algorithm ? kAnotherAlgorithm : step.instead.kernel->name));
  }
  SayFrom(before);
  return absl::OkStatus();
}

absl::Status Fallbacks::Add(const Node& node, absl::string_view library, const std::string& why,
                            absl::string_view instead) {
  Fallback fallback{node.name, node.op, std::string(library), why, std::string(instead)};
  if (!known_.insert(fallback).second) return absl::OkStatus();
  if (strict_) {
    return NodeError(node.loc, node.name, node.op,
                     absl::FailedPreconditionError(absl::StrCat(library, " does not serve it: ", why, "; ",
                                                                InWords(library, instead),
                                                                " would, and --strict-kernels does not want that")));
  }
  all_.push_back(std::move(fallback));
  return absl::OkStatus();
}

// A line for each library, reason and what serves instead.
void Fallbacks::SayFrom(size_t first) const {
  std::map<std::tuple<std::string, std::string, std::string>, std::map<std::string, std::vector<std::string>>> lines;
  for (size_t i = first; i < all_.size(); ++i) {
    const Fallback& one = all_[i];
    lines[{one.library, one.why, one.instead}][one.op].push_back(one.node);
  }
  for (const auto& [reason, nodes_by_op] : lines) {
    const auto& [library, why, instead] = reason;
    const bool same_library = instead == kAnotherAlgorithm;
    const std::string line =
        absl::StrCat(InWords(library, instead), " serves in place of ", library,
                     same_library ? "'s first choice for " : "'s, more slowly, for ", NamesOf(nodes_by_op), ": ", why);
    report_ != nullptr ? report_(line) : static_cast<void>(std::fprintf(stderr, "%s\n", line.c_str()));
  }
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
