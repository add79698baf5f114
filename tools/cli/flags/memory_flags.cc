#include "tools/cli/flags/memory_flags.h"

#include <absl/algorithm/container.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/str_join.h>

#include "engine/base/max_threads.h"
#include "engine/base/status.h"
#include "engine/compile/memory/memory_settings.h"
#include "memory/ilp/solver.h"
#include "memory/strategies.h"
#include "tools/cli/command.h"
#include "tools/cli/flags/proto_flags.h"

namespace snug::core::cli {
namespace {

std::string StrategyNames() {
  return absl::StrJoin(memory::Strategies(), ", ", [](std::string* out, const memory::Strategy& strategy) {
    absl::StrAppend(out, strategy.name, strategy.name == memory::kDefaultStrategy ? " (default)" : "");
  });
}

std::string StreamPolicyNames() { return absl::StrJoin(StreamPolicies(), ", "); }

}  // namespace

void StreamFlags::AddTo(Flags& flags) {
  flags.Add("streams", &count, "queues that run a step side by side, each op on --threads threads; default 1", 1,
            kMaxThreads);
  flags.Add("stream-policy", &policy,
            absl::StrCat("how values share bytes among streams, in the order of --memory: ", StreamPolicyNames(),
                         "; serial: by --memory, and streams wait where bytes are used again; waitless: nobody waits "
                         "for bytes (the default for best on several streams)"));
}

absl::Status StreamFlags::SetIn(MemoryOptions* options) const {
  if (!policy.empty() && !absl::c_linear_search(StreamPolicies(), policy)) {
    return absl::InvalidArgumentError(
        absl::StrCat("--stream-policy: expected one of ", StreamPolicyNames(), ", found \"", policy, "\""));
  }
  options->streams = static_cast<int>(count);
  options->stream_policy = policy;
  return absl::OkStatus();
}

void MemoryFlags::AddTo(Flags& flags) {
  flags.Add("memory", "TEXT",
            absl::StrCat("how memory is planned: ", StrategyNames(),
                         "; or dynamic: not at all, values are freed as they die"),
            [this](const std::string& value) {
              given.set_strategy(value);
              return absl::OkStatus();
            });
  planner.AddTo(flags);
  AddProtoFlags("", "", &given, flags);
  streams.AddTo(flags);
  flags.Add("plan", &plan_file, "a plan that `snug plan --write-plan` saved: nothing is planned");
}

namespace {

MemorySource OnCommandLine(const proto::Memory& given) { return {&given, OptionPlaces::OnCommandLine()}; }

PlannerInPlay InPlay(const MemoryOptions& options) {
  return {.strategy = options.strategy, .sharing = std::string(PlacingPolicy(options))};
}

MemorySource InFile(const LoadedNetwork& file) {
  return {&file.network.training().memory(), OptionPlaces::InFile(file.source_map)};
}

}  // namespace

absl::StatusOr<MemoryOptions> MemoryFlags::Options(absl::Span<const LoadedNetwork* const> files) const {
  const bool planned = !plan_file.empty();
  if (planned && (given.has_strategy() || !streams.policy.empty())) {
    return absl::InvalidArgumentError("--plan excludes --memory and --stream-policy: a saved plan is used as it is");
  }
  std::vector<MemorySource> sources = {OnCommandLine(given)};
  for (const LoadedNetwork* file : files) sources.push_back(InFile(*file));
  // A saved plan replaces what files say about planning, but a limit in a file holds for it too.
  std::vector<proto::Memory> limits(sources.size());
  for (size_t i = 1; planned && i < sources.size(); ++i) {
    SNUG_RETURN_IF_ERROR(CheckMemory(sources[i]));
    if (sources[i].memory->has_memory_limit()) limits[i].set_memory_limit(sources[i].memory->memory_limit());
    sources[i].memory = &limits[i];
  }
  SNUG_ASSIGN_OR_RETURN(MemoryOptions options, SettleMemory(sources));
  options.plan_file = plan_file;
  SNUG_RETURN_IF_ERROR(streams.SetIn(&options));
  const PlannerInPlay in_play = planned ? PlannerInPlay{absl::StrCat("--plan=", plan_file)} : InPlay(options);
  SNUG_ASSIGN_OR_RETURN(options.planner, planner.Options({&in_play, 1}));
  return options;
}

void StrategyListFlags::AddTo(Flags& flags) {
  const std::string slow =
      slow_seconds > 0 ? absl::StrCat("slow ones get ", slow_seconds, " s") : "but slow ones must be named";
  flags.Add("memory", &strategies,
            usual.empty()
                ? absl::StrCat("the strategies; default: all, ", slow, ": ", StrategyNames(), ", ", kDynamicMemory)
                : absl::StrCat("the strategies; default: ", absl::StrJoin(usual, ","), ", ", slow,
                               "; there are: ", StrategyNames(), ", ", kDynamicMemory));
  planner.AddTo(flags);
  AddProtoFlags("", "", &given, flags, {"memory-limit"});
  streams.AddTo(flags);
}

void StrategyListFlags::AddLimitTo(Flags& flags, const std::string& help) {
  flags.Add("memory-limit", "TEXT", help, [this](const std::string& value) {
    given.set_memory_limit(value);
    return absl::OkStatus();
  });
}

absl::StatusOr<std::vector<MemoryOptions>> StrategyListFlags::Options(const LoadedNetwork& file) const {
  std::vector<std::string> names = strategies;
  if (names.empty()) {
    for (const memory::Strategy& strategy : memory::Strategies()) {
      if (!usual.empty() && !absl::c_linear_search(usual, strategy.name)) continue;
      const bool there = !strategy.by_solver || !memory::IlpSolvers().empty();
      if (there && (!strategy.slow || slow_seconds > 0)) names.emplace_back(strategy.name);
    }
    if (usual.empty()) names.emplace_back(kDynamicMemory);
  }
  std::vector<PlannerInPlay> in_play;
  for (const std::string& name : names) {
    SNUG_RETURN_IF_ERROR(CheckStrategyName(name));
    MemoryOptions options;
    options.strategy = name;
    SNUG_RETURN_IF_ERROR(streams.SetIn(&options));
    in_play.push_back(InPlay(options));
  }
  SNUG_ASSIGN_OR_RETURN(const memory::PlannerOptions planner_options, planner.Options(in_play));
  const bool limited = planner_options.work_limit > 0 || planner_options.time_limit > 0;
  SNUG_ASSIGN_OR_RETURN(const MemoryOptions merged, MergeMemory({OnCommandLine(given), InFile(file)}));
  if (!absl::c_linear_search(names, kDynamicMemory)) SNUG_RETURN_IF_ERROR(ExpectNothingDynamic(OnCommandLine(given)));
  std::vector<MemoryOptions> list;
  for (const std::string& name : names) {
    MemoryOptions& options = list.emplace_back(merged);
    options.strategy = name;
    options.planner = planner_options;
    SNUG_RETURN_IF_ERROR(streams.SetIn(&options));
    if (name == kDynamicMemory) {
      options.stream_policy.clear();  // a policy says how a plan shares bytes, and here is none
      continue;
    }
    SNUG_ASSIGN_OR_RETURN(const memory::Strategy* const strategy, memory::FindStrategy(name));
    if (strategy->slow && !limited) options.planner.time_limit = slow_seconds;
  }
  return list;
}

}  // namespace snug::core::cli
