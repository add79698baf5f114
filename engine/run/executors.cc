#include "engine/run/executors.h"

#include <absl/strings/str_cat.h>

#include "engine/base/suggest.h"
#include "engine/run/dynamic_executor.h"
#include "engine/run/replay/replay_executor.h"
#include "engine/run/serial_executor.h"

namespace snug {
namespace {

constexpr struct {
  EngineKind kind;
  absl::string_view name;
} kEngines[] = {{EngineKind::kReplay, "replay"}, {EngineKind::kSerial, "serial"}, {EngineKind::kDynamic, "dynamic"}};

}  // namespace

absl::string_view EngineName(EngineKind kind) {
  for (const auto& engine : kEngines) {
    if (engine.kind == kind) return engine.name;
  }
  return "";
}

absl::StatusOr<EngineKind> ParseEngine(absl::string_view name) {
  for (const auto& engine : kEngines) {
    if (engine.name == name) return engine.kind;
  }
  return absl::InvalidArgumentError(absl::StrCat("unknown engine \"", name, "\"; there are: replay, serial, dynamic"));
}

absl::StatusOr<std::unique_ptr<Executor>> MakeExecutor(EngineKind kind, const Executable& executable,
                                                       const ArenaBytes& arenas, Poison* poison) {
  switch (kind) {
    case EngineKind::kReplay:
      if (executable.memory.dynamic.has_value()) {
        return absl::InvalidArgumentError(
            "engine \"replay\": expected planned memory, found --memory=dynamic: it replays a plan, and there is none; "
            "the engines serial and dynamic run without");
      }
      return std::make_unique<ReplayExecutor>(executable, arenas);
    case EngineKind::kSerial:
      return std::make_unique<SerialExecutor>(executable, arenas, poison);
    case EngineKind::kDynamic:
      return DynamicExecutor::Create(executable, arenas);
  }
  return absl::InternalError("no such engine");
}

}  // namespace snug
