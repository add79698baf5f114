#include "tools/cli/flags/planner_flags.h"

#include <absl/algorithm/container.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/str_join.h>

#include <utility>
#include <vector>

#include "engine/base/machine.h"
#include "engine/base/max_threads.h"
#include "engine/base/status.h"
#include "memory/share/parallel.h"

namespace snug::core::cli {

PlannerFlags::PlannerFlags()
    : match_range(memory::PlannerOptions().match_range), colors(memory::PlannerOptions().colors) {}

void PlannerFlags::AddTo(Flags& flags) {
  flags.Add("work-limit", &work_limit, "steps of search, reproducible on every machine; default: the strategy's own");
  flags.Add("time-limit", &time_limit, "seconds of search; what a clock stops is not reproducible; default: none");
  flags.Add("match-range", &match_range,
            "share, both: blocks of size / R to size * R are taken from the pool; 0: none; -1: tries 1, 2, 4, ...; "
            "default 16",
            -1);
  flags.Add("colors", &colors, "sharing for parallel streams: longest paths that are coloured; default 2", 1);
  flags.Add("olla", &olla_mode,
            "olla: split (order, then offsets), joint (both in one program), auto (split, and joint for small graphs; "
            "default)");
  flags.Add("olla-spans", &olla.spans, "olla: tasks only within their earliest and latest position; default true");
  flags.Add("olla-precedence", &olla.precedence,
            "olla: nothing about the offsets of two values that never live together; default true");
  flags.Add("olla-stages", &olla.stages,
            "olla: a program for each part that every order runs as a whole; default true");
  flags.Add("olla-merge", &olla.merge,
            "olla: tasks that may as well run in one go are one for the program of the order; default true");
  flags.Add("olla-fast-start", &olla.fast_start,
            "olla: begins with the plan of best, and its bound; false: with the given order alone; default true");
  flags.Add("olla-early-updates", &olla.early_updates,
            "olla: weight updates run early, which is faster and can cost bytes; default false");
  flags.Add("olla-pyramid", &olla.pyramid,
            "olla: nested lifetimes are stacked first, which is faster and can cost bytes; default false");
  flags.Add("olla-warm-start", &olla.warm_start, "olla: the solver begins with the plan to beat; default false");
}

void PlannerFlags::AddThreadsTo(Flags& flags) {
  flags.Add("threads", &threads, "threads of the search, which do not change its result; default: every processor", 1,
            kMaxThreads);
}

namespace {

absl::StatusOr<memory::OllaOptions::Mode> ParseOllaMode(const std::string& mode) {
  using Mode = memory::OllaOptions::Mode;
  if (mode == "auto") return Mode::kAuto;
  if (mode == "split") return Mode::kSplit;
  if (mode == "joint") return Mode::kJoint;
  return absl::InvalidArgumentError(absl::StrCat("--olla: expected auto, split or joint, found \"", mode, "\""));
}

// Flags that some planners alone read, beside limits, which all take.
struct ReadBySome {
  absl::string_view flags;
  bool (*given)(const PlannerFlags&);
  std::vector<absl::string_view> readers;
};

std::vector<ReadBySome> FlagsReadBySome() {
  const absl::Span<const absl::string_view> sharing = memory::ParallelSharingNames();
  std::vector<absl::string_view> by_size = {"share", "both", "best"};
  by_size.insert(by_size.end(), sharing.begin(), sharing.end());
  return {
      {"--match-range", [](const PlannerFlags& f) { return f.match_range != PlannerFlags().match_range; }, by_size},
      {"--colors", [](const PlannerFlags& f) { return f.colors != PlannerFlags().colors; }, {"colors", "colors-only"}},
      {"--olla and --olla-...",
       [](const PlannerFlags& f) { return f.olla_mode != PlannerFlags().olla_mode || f.olla != PlannerFlags().olla; },
       {"olla"}},
  };
}

absl::Status ExpectReaders(const PlannerFlags& flags, absl::Span<const std::string> planners) {
  for (const ReadBySome& some : FlagsReadBySome()) {
    const auto reads = [&](absl::string_view name) { return absl::c_linear_search(planners, name); };
    if (!some.given(flags) || absl::c_any_of(some.readers, reads)) continue;
    return absl::InvalidArgumentError(absl::StrCat(some.flags, ": expected a planner that reads it (",
                                                   absl::StrJoin(some.readers, ", "), "), found ",
                                                   absl::StrJoin(planners, ", ")));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<memory::PlannerOptions> PlannerFlags::Options(absl::Span<const std::string> planners) const {
  SNUG_RETURN_IF_ERROR(ExpectReaders(*this, planners));
  if (time_limit < 0)
    return absl::InvalidArgumentError(absl::StrCat("--time-limit: expected seconds, found ", time_limit));
  constexpr int64_t kMost = 1 << 30;
  if (match_range > kMost || colors > kMost) {
    return absl::InvalidArgumentError(absl::StrCat("--match-range, --colors: expected at most ", kMost));
  }
  memory::OllaOptions olla_options = olla;
  SNUG_ASSIGN_OR_RETURN(olla_options.mode, ParseOllaMode(olla_mode));
  return memory::PlannerOptions{.work_limit = work_limit,
                                .time_limit = time_limit,
                                .threads = threads > 0 ? static_cast<int>(threads) : AvailableProcessors(),
                                .match_range = static_cast<int>(match_range),
                                .colors = static_cast<int>(colors),
                                .olla = std::move(olla_options)};
}

}  // namespace snug::core::cli
