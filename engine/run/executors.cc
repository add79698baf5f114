#include "engine/run/executors.h"

#include <absl/strings/str_cat.h>
#include <absl/strings/str_join.h>

#include <algorithm>
#include <iterator>
#include <string>
#include <vector>

#include "engine/base/status.h"
#include "engine/run/dynamic_executor.h"
#include "engine/run/replay/replay_executor.h"
#include "engine/run/serial_executor.h"

namespace snug {
namespace {

constexpr EngineInfo kEngines[] = {
    {EngineKind::kReplay, "replay", /*needs_plan=*/true, /*side_by_side=*/true},
    {EngineKind::kSerial, "serial", /*needs_plan=*/false, /*side_by_side=*/false},
    {EngineKind::kDynamic, "dynamic", /*needs_plan=*/false, /*side_by_side=*/true},
};

std::string NamesWhere(bool (*chosen)(const EngineInfo&), absl::string_view separator) {
  std::vector<absl::string_view> names;
  for (const EngineInfo& engine : kEngines) {
    if (chosen(engine)) names.push_back(engine.name);
  }
  return absl::StrJoin(names, separator);
}

absl::Status CheckNeedsNoPlan(const EngineInfo& engine) {
  if (!engine.needs_plan) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "engine \"", engine.name,
      "\": expected planned memory, found --memory=dynamic: it replays a plan, and there is none; the engines ",
      NamesWhere([](const EngineInfo& e) { return !e.needs_plan; }, " and "), " run without"));
}

}  // namespace

absl::Span<const EngineInfo> Engines() { return kEngines; }

const EngineInfo& InfoOf(EngineKind kind) {
  return *std::find_if(std::begin(kEngines), std::end(kEngines),
                       [kind](const EngineInfo& engine) { return engine.kind == kind; });
}

absl::string_view EngineName(EngineKind kind) { return InfoOf(kind).name; }

absl::StatusOr<EngineKind> ParseEngine(absl::string_view name) {
  for (const EngineInfo& engine : kEngines) {
    if (engine.name == name) return engine.kind;
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "unknown engine \"", name, "\"; there are: ", NamesWhere([](const EngineInfo&) { return true; }, ", ")));
}

absl::StatusOr<std::unique_ptr<Executor>> MakeExecutor(EngineKind kind, const Executable& executable,
                                                       const ArenaBytes& arenas, Poison* poison) {
  if (executable.memory.dynamic.has_value()) SNUG_RETURN_IF_ERROR(CheckNeedsNoPlan(InfoOf(kind)));
  switch (kind) {
    case EngineKind::kReplay:
      return std::make_unique<ReplayExecutor>(executable, arenas);
    case EngineKind::kSerial:
      return std::make_unique<SerialExecutor>(executable, arenas, poison);
    case EngineKind::kDynamic:
      return DynamicExecutor::Create(executable, arenas);
  }
  return absl::InternalError("no such engine");
}

}  // namespace snug
