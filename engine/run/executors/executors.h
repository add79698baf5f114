// The table of the executors, by the names that --engine= takes. Only this file knows them all.
#pragma once

#include <absl/status/statusor.h>
#include <absl/strings/string_view.h>
#include <absl/types/span.h>

#include <memory>

#include "engine/compile/executable.h"
#include "engine/run/executors/bound_steps.h"
#include "engine/run/executors/executor.h"
#include "engine/run/executors/poison.h"

namespace snug::core {

enum class ExecutorKind : uint8_t { kReplay, kSerial, kDynamic };

struct ExecutorInfo {
  ExecutorKind kind;
  absl::string_view name;  // the name as written after --engine=
  bool needs_plan;         // it cannot run where memory is dynamic
  bool side_by_side;       // it runs Steps of different streams at the same time
};
absl::Span<const ExecutorInfo> Executors();
const ExecutorInfo& InfoOf(ExecutorKind kind);

absl::string_view ExecutorName(ExecutorKind kind);
absl::StatusOr<ExecutorKind> ParseExecutor(absl::string_view name);

// The Executable and `poison` (which only the serial engine takes; may be null) must outlive the result.
absl::StatusOr<std::unique_ptr<Executor>> MakeExecutor(ExecutorKind kind, const Executable& executable,
                                                       const ArenaBytes& arenas, Poison* poison);

}  // namespace snug::core
