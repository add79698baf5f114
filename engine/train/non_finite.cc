#include "engine/train/non_finite.h"

#include <absl/strings/str_cat.h>

#include <cmath>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "engine/base/bfloat16.h"
#include "engine/base/status.h"
#include "engine/run/executors/bound_steps.h"
#include "engine/run/executors/serial_executor.h"
#include "memory/host_arena.h"
#include "ops/graph_builder.h"

namespace snug::core {
namespace {

template <class T>
int64_t CountNonFiniteAs(const std::byte* data, int64_t n) {
  int64_t count = 0;
  for (int64_t i = 0; i < n; ++i) {
    count += !std::isfinite(static_cast<double>(reinterpret_cast<const T*>(data)[i]));
  }
  return count;
}

// Counts elements that are not finite; integers always are.
int64_t CountNonFinite(const ValueType& type, const std::byte* data) {
  switch (type.dtype) {
    case DType::kFloat32:
      return CountNonFiniteAs<float>(data, type.num_elements());
    case DType::kFloat64:
      return CountNonFiniteAs<double>(data, type.num_elements());
    case DType::kBFloat16:
      return CountNonFiniteAs<BFloat16>(data, type.num_elements());
    default:
      return 0;
  }
}

void CopyVariables(Session& from, const Compiled& compiled, const ArenaBytes& arenas) {
  const std::vector<Variable>& variables = compiled.graph.variables();
  for (size_t i = 0; i < variables.size(); ++i) {
    const Slot slot = compiled.executable.variables[i];
    const absl::StatusOr<Session::View> source = from.FindVariable(variables[i].name, HostAccess::kRead);
    if (slot.offset < 0 || !source.ok()) continue;  // constants that nothing reads
    std::memcpy(arenas.Address(slot), source->data, static_cast<size_t>(variables[i].type.size_bytes()));
  }
}

// Describes what is wrong with the Step that has just run; nothing, if its outputs are finite.
std::string Describe(const Compiled& compiled, const Step& step, const ArenaBytes& arenas) {
  const auto bad = [&](const std::vector<ValueType>& types, const std::vector<Slot>& slots) {
    int64_t count = 0;
    for (size_t i = 0; i < slots.size(); ++i) {
      if (slots[i].offset >= 0) count += CountNonFinite(types[i], arenas.Address(slots[i]));
    }
    return count;
  };
  const int64_t outputs = bad(step.types.outputs, step.outputs);
  if (outputs == 0) return "";
  const Node& node = compiled.graph.node(step.node);
  const std::string what = absl::StrCat(
      "the first node whose output is not finite (", outputs, " numbers); ",
      bad(step.types.inputs, step.inputs) > 0 ? "its inputs, data or parameters, are not either" : "its inputs are");
  return std::string(NodeError(node.loc, node.name, node.op, absl::InternalError(what)).message());
}

}  // namespace

absl::StatusOr<std::string> DescribeNonFinite(const proto::Network& network, const SourceMap& locations,
                                              const OpRegistry& registry, const CompileOptions& options,
                                              Session& session,
                                              const std::function<absl::Status(Program& program)>& feed) {
  CompileOptions unshared = options;
  unshared.device = {};  // runs on the host, where each node can be looked at
  unshared.keep_inputs = true;
  unshared.memory = {.strategy = "none"};
  unshared.bound.clear();
  SNUG_ASSIGN_OR_RETURN(Compiled made, Compile(network, locations, registry, unshared));
  auto owned = std::make_unique<Compiled>(std::move(made));
  const Compiled& compiled = *owned;
  const MemoryPlan& plan = compiled.executable.memory;
  SNUG_ASSIGN_OR_RETURN(const auto state, memory::HostArena::Create(plan.state_plan.arena_bytes));
  SNUG_ASSIGN_OR_RETURN(const auto step, memory::HostArena::Create(plan.step.placement.plan.arena_bytes));
  const ArenaBytes arenas{state->data(), step->data()};
  CopyVariables(session, compiled, arenas);
  Program program(std::move(owned), /*blocks=*/nullptr,
                  std::make_unique<CallerBuffers>(compiled.executable, CallerBuffers::kAlignment,
                                                  std::vector<absl::Span<const std::byte>>{}),
                  std::make_unique<SerialExecutor>(compiled.executable, arenas, nullptr));
  SNUG_RETURN_IF_ERROR(feed(program));
  BoundSteps steps(compiled.executable, arenas);
  for (size_t i = 0; i < steps.size(); ++i) {
    SNUG_RETURN_IF_ERROR(steps.Run(i));
    std::string found = Describe(compiled, compiled.executable.steps[i], arenas);
    if (!found.empty()) return found;
  }
  return std::string("the step, run again by itself, had only finite numbers");
}

}  // namespace snug::core
