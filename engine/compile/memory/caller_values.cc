#include <absl/strings/str_cat.h>

#include <algorithm>
#include <set>

#include "engine/base/status.h"
#include "engine/compile/memory/views.h"

namespace snug::core {
namespace {

absl::StatusOr<CallerValue> Find(const Graph& graph, const std::string& name) {
  std::string known;
  for (const ValueId input : graph.inputs()) {
    if (graph.value(input).name == name) return CallerValue{name, input, /*input=*/true};
    absl::StrAppend(&known, known.empty() ? "" : ", ", graph.value(input).name);
  }
  for (const Output& output : graph.outputs) {
    if (output.name == name) return CallerValue{name, output.value, /*input=*/false};
    absl::StrAppend(&known, known.empty() ? "" : ", ", output.name);
  }
  return absl::NotFoundError(absl::StrCat("bound \"", name,
                                          "\": expected an input or an output, found neither; there are: ", known,
                                          " (any other value becomes an output by being fetched)"));
}

absl::Status CheckOwnsBytes(const Graph& graph, const CallerValue& bound, ValueId root) {
  const auto refuse = [&](auto... why) {
    return absl::InvalidArgumentError(
        absl::StrCat("bound ", bound.input ? "input \"" : "output \"", bound.name, "\": ", why...));
  };
  if (!graph.type(bound.value).layout.plain()) {
    return refuse("its bytes are not row-major: ", graph.type(bound.value).ToString());
  }
  const Value& owner = graph.value(root);
  if (owner.variable.valid()) {
    return refuse("it lies on the bytes of Variable \"", graph.variable(owner.variable).name,
                  "\", which are the session's; fetch it instead");
  }
  if (!bound.input && !owner.producer.valid()) {
    return refuse("it lies on the bytes of input \"", owner.name, "\"; bind that one, or fetch this one");
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::vector<CallerValue>> FindCallerValues(const Graph& graph, const OpRegistry& registry,
                                                          int64_t alignment, absl::Span<const std::string> names) {
  std::vector<CallerValue> all;
  if (names.empty()) return all;
  const PossibleViews possible(graph, registry, alignment);
  const Views views(possible, possible.AllCopied());
  for (const std::string& name : names) {
    SNUG_ASSIGN_OR_RETURN(CallerValue bound, Find(graph, name));
    const ValueId root = views.RootOf(bound.value);
    SNUG_RETURN_IF_ERROR(CheckOwnsBytes(graph, bound, root));
    for (const CallerValue& other : all) {
      if (views.RootOf(other.value) != root) continue;
      return absl::InvalidArgumentError(
          other.name == name ? absl::StrCat("bound \"", name, "\": it is named twice")
                             : absl::StrCat("bound \"", name, "\": its bytes are those of \"", other.name,
                                            "\", which is bound already; bind one of them and fetch the other"));
    }
    all.push_back(std::move(bound));
  }
  return all;
}

std::vector<char> CopiedForCaller(const PossibleViews& possible, absl::Span<const CallerValue> bound) {
  const Graph& graph = possible.graph();
  std::vector<char> copied(graph.node_capacity(), 0);
  if (bound.empty()) return copied;
  const Views views(possible, possible.AllCopied());
  std::set<ValueId> roots;
  for (const CallerValue& one : bound) {
    if (!one.input) roots.insert(views.RootOf(one.value));
  }
  const auto is_bound = [&](ValueId value) { return value.valid() && roots.contains(views.RootOf(value)); };
  for (const PossibleViews::View& view : possible.views()) {
    if (!view.optional) continue;  // what writes over parts never writes what is put out there
    const Node& node = graph.node(view.node);
    const std::vector<ValueId>& parts = !view.in_input.empty() ? node.outputs : node.inputs;
    copied[static_cast<size_t>(view.node.index)] = std::any_of(parts.begin(), parts.end(), is_bound) ? 1 : 0;
  }
  return copied;
}

}  // namespace snug::core
