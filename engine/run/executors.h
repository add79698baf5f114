// The table of the engines that run an Executable's Plan, by name. Only this file knows them all.
#pragma once

#include <absl/status/statusor.h>
#include <absl/strings/string_view.h>
#include <absl/types/span.h>

#include <memory>

#include "engine/compile/executable.h"
#include "engine/run/bound_steps.h"
#include "engine/run/executor.h"
#include "engine/run/poison.h"

namespace snug {

enum class EngineKind : uint8_t { kReplay, kSerial, kDynamic };

struct EngineInfo {
  EngineKind kind;
  absl::string_view name;  // the name as written after --engine=
  bool needs_plan;         // it cannot run where memory is dynamic
  bool side_by_side;       // it runs Steps of different streams at the same time
};
absl::Span<const EngineInfo> Engines();
const EngineInfo& InfoOf(EngineKind kind);

absl::string_view EngineName(EngineKind kind);
absl::StatusOr<EngineKind> ParseEngine(absl::string_view name);

// The Executable and `poison` (which only the serial engine takes; may be null) must outlive the result.
absl::StatusOr<std::unique_ptr<Executor>> MakeExecutor(EngineKind kind, const Executable& executable,
                                                       const ArenaBytes& arenas, Poison* poison);

}  // namespace snug
