#include "engine/run/executors/executor.h"

#include <absl/strings/str_cat.h>
#include <absl/strings/str_join.h>

#include <algorithm>
#include <chrono>
#include <iterator>
#include <string>
#include <vector>

#include "engine/base/status.h"
#include "engine/run/executors/dynamic_executor.h"
#include "engine/run/executors/replay_executor.h"
#include "engine/run/executors/serial_executor.h"

namespace snug::core {
namespace {

constexpr ExecutorInfo kExecutors[] = {
    {ExecutorKind::kReplay, "replay", /*needs_plan=*/true, /*side_by_side=*/true},
    {ExecutorKind::kSerial, "serial", /*needs_plan=*/false, /*side_by_side=*/false},
    {ExecutorKind::kDynamic, "dynamic", /*needs_plan=*/false, /*side_by_side=*/true},
};

std::string NamesWhere(bool (*chosen)(const ExecutorInfo&), absl::string_view separator) {
  std::vector<absl::string_view> names;
  for (const ExecutorInfo& engine : kExecutors) {
    if (chosen(engine)) names.push_back(engine.name);
  }
  return absl::StrJoin(names, separator);
}

}  // namespace

int64_t MonotonicNanoseconds() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

absl::Span<const ExecutorInfo> Executors() { return kExecutors; }

const ExecutorInfo& InfoOf(ExecutorKind kind) {
  return *std::find_if(std::begin(kExecutors), std::end(kExecutors),
                       [kind](const ExecutorInfo& engine) { return engine.kind == kind; });
}

absl::string_view ExecutorName(ExecutorKind kind) { return InfoOf(kind).name; }

absl::StatusOr<ExecutorKind> ParseExecutor(absl::string_view name) {
  for (const ExecutorInfo& engine : kExecutors) {
    if (engine.name == name) return engine.kind;
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "unknown engine \"", name, "\"; there are: ", NamesWhere([](const ExecutorInfo&) { return true; }, ", ")));
}

absl::Status CheckPlanned(ExecutorKind kind, const Executable& executable) {
  if (!InfoOf(kind).needs_plan || !executable.memory.dynamic.has_value()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "engine \"", ExecutorName(kind),
      "\": expected planned memory, found --memory=dynamic: it replays a plan, and there is none; the engines ",
      NamesWhere([](const ExecutorInfo& e) { return !e.needs_plan; }, " and "), " run without"));
}

absl::StatusOr<std::unique_ptr<Executor>> MakeExecutor(ExecutorKind kind, const Executable& executable,
                                                       const ArenaBytes& arenas, Poison* poison) {
  SNUG_RETURN_IF_ERROR(CheckPlanned(kind, executable));
  switch (kind) {
    case ExecutorKind::kReplay:
      return std::make_unique<ReplayExecutor>(executable, arenas);
    case ExecutorKind::kSerial:
      return std::make_unique<SerialExecutor>(executable, arenas, poison);
    case ExecutorKind::kDynamic:
      return DynamicExecutor::Create(executable, arenas);
  }
  return absl::InternalError("no such engine");
}

}  // namespace snug::core
