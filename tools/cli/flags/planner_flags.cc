#include "tools/cli/flags/planner_flags.h"

#include <absl/algorithm/container.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/str_join.h>

#include <functional>
#include <utility>
#include <vector>

#include "engine/base/machine.h"
#include "engine/base/max_threads.h"
#include "engine/base/status.h"
#include "memory/olla_options.h"
#include "memory/share/parallel.h"

namespace snug::core::cli {
namespace {

struct OllaSwitch {
  const char* flag;
  bool memory::OllaOptions::*field;
  const char* help;
  bool places = false;  // it is read where buffers are placed whose lifetimes are fixed, too
};

using memory::OllaOptions;

constexpr std::array<OllaSwitch, PlannerFlags::kOllaSwitches> kOlla = {{
    {"olla-spans", &OllaOptions::spans, "olla: tasks only within their earliest and latest position; default true"},
    {"olla-precedence", &OllaOptions::precedence,
     "olla: nothing about the offsets of two values that never live together; default true"},
    {"olla-stages", &OllaOptions::stages,
     "olla: a program for each part that every order runs as a whole; default true"},
    {"olla-merge", &OllaOptions::merge,
     "olla: tasks that may as well run in one go are one for the program of the order; default true"},
    {"olla-fast-start", &OllaOptions::fast_start,
     "olla: begins with the plan of best, and its bound; false: with the given order alone; default true", true},
    {"olla-early-updates", &OllaOptions::early_updates,
     "olla: weight updates run early, which is faster and can cost bytes; default false"},
    {"olla-pyramid", &OllaOptions::pyramid,
     "olla: nested lifetimes are stacked first, which is faster and can cost bytes; default false", true},
    {"olla-warm-start", &OllaOptions::warm_start, "olla: the solver begins with the plan to beat; default false", true},
}};

constexpr int64_t kMost = 1 << 30;

absl::StatusOr<OllaOptions::Mode> ParseOllaMode(const std::string& mode) {
  using Mode = OllaOptions::Mode;
  if (mode == "auto") return Mode::kAuto;
  if (mode == "split") return Mode::kSplit;
  if (mode == "joint") return Mode::kJoint;
  return absl::InvalidArgumentError(absl::StrCat("--olla: expected auto, split or joint, found \"", mode, "\""));
}

// Who reads a flag: strategies, and policies of streams, which place in their stead.
struct Readers {
  std::vector<absl::string_view> strategies;
  std::vector<absl::string_view> policies = {};
  bool order_too = false;  // the policy leaves the strategy's order, which reads the flag

  bool Has(const PlannerInPlay& planner) const {
    if (!planner.sharing.empty() && absl::c_linear_search(policies, planner.sharing)) return true;
    return (planner.sharing.empty() || order_too) && absl::c_linear_search(strategies, planner.strategy);
  }
};

Readers ReadersOfMatchRange(bool orders) {
  Readers readers = {.strategies = {"share", "both"}};
  if (orders) readers.strategies.push_back("best");  // which compares its plan with that of both
  const absl::Span<const absl::string_view> sharing = memory::ParallelSharingNames();
  readers.policies.assign(sharing.begin(), sharing.end());
  return readers;
}

std::string NameOf(const PlannerInPlay& planner) {
  return planner.sharing.empty() ? planner.strategy : absl::StrCat(planner.strategy, "+", planner.sharing);
}

}  // namespace

void PlannerFlags::AddTo(Flags& flags) {
  flags.Add("work-limit", &work_limit, "steps of search, reproducible on every machine; default: the strategy's own");
  flags.Add("time-limit", &time_limit, "seconds of search; what a clock stops is not reproducible; default: none");
  flags.Add("match-range", &match_range,
            absl::StrCat("whole blocks of size / R to size * R are taken from the pool, by share, both, best and, on "
                         "streams, ",
                         absl::StrJoin(memory::ParallelSharingNames(), ", "),
                         "; 0: none; -1: tries 1, 2, 4, ...; default 16"),
            -1, kMost);
  flags.Add("colors", &colors,
            "sharing on streams by colors or colors-only: longest paths that are coloured; default 2", 1, kMost);
  flags.Add("olla", &olla_mode,
            "olla: split (order, then offsets), joint (both in one program), auto (split, and joint for small graphs; "
            "default)");
  for (size_t i = 0; i < kOlla.size(); ++i) flags.Add(kOlla[i].flag, &olla[i], kOlla[i].help);
}

void PlannerFlags::AddThreadsTo(Flags& flags) {
  ops_run = false;
  flags.Add("threads", &threads, "threads of the search, which do not change its result; default: every processor", 1,
            kMaxThreads);
}

absl::Status PlannerFlags::ExpectReaders(absl::Span<const PlannerInPlay> planners) const {
  const bool orders = absl::c_any_of(planners, [](const PlannerInPlay& planner) { return planner.orders; });
  const auto expect = [&](bool given, absl::string_view flag, const Readers& readers) -> absl::Status {
    if (!given || absl::c_any_of(planners, [&](const PlannerInPlay& p) { return readers.Has(p); })) {
      return absl::OkStatus();
    }
    std::vector<std::string> expected;
    if (!readers.strategies.empty()) {
      expected.push_back(absl::StrCat("--memory=", absl::StrJoin(readers.strategies, ", ")));
    }
    if (ops_run && !readers.policies.empty()) {
      expected.push_back(absl::StrCat("--stream-policy=", absl::StrJoin(readers.policies, ", ")));
    }
    return absl::InvalidArgumentError(absl::StrCat(
        "--", flag, ": expected a planner that reads it (", absl::StrJoin(expected, "; or "), "), found ",
        absl::StrJoin(planners, ", ",
                      [](std::string* out, const PlannerInPlay& planner) { absl::StrAppend(out, NameOf(planner)); })));
  };
  SNUG_RETURN_IF_ERROR(expect(match_range.has_value(), "match-range", ReadersOfMatchRange(orders)));
  SNUG_RETURN_IF_ERROR(expect(colors.has_value(), "colors", {.strategies = {}, .policies = {"colors", "colors-only"}}));
  const Readers of_olla = {.strategies = {"olla"}, .order_too = true};
  const auto refused_to_place = [](absl::string_view flag) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--", flag, ": is about the order, which is fixed here: expected `snug order`, or `snug plan` of a network"));
  };
  SNUG_RETURN_IF_ERROR(expect(olla_mode.has_value(), "olla", of_olla));
  if (olla_mode.has_value() && !orders) return refused_to_place("olla");
  for (size_t i = 0; i < kOlla.size(); ++i) {
    SNUG_RETURN_IF_ERROR(expect(olla[i].has_value(), kOlla[i].flag, of_olla));
    if (olla[i].has_value() && !orders && !kOlla[i].places) return refused_to_place(kOlla[i].flag);
  }
  return absl::OkStatus();
}

absl::StatusOr<memory::PlannerOptions> PlannerFlags::Options(absl::Span<const PlannerInPlay> planners) const {
  if (time_limit < 0)
    return absl::InvalidArgumentError(absl::StrCat("--time-limit: expected seconds, found ", time_limit));
  memory::PlannerOptions options = {.work_limit = work_limit,
                                    .time_limit = time_limit,
                                    .threads = threads > 0 ? static_cast<int>(threads) : AvailableProcessors()};
  if (match_range.has_value()) options.match_range = static_cast<int>(*match_range);
  if (colors.has_value()) options.colors = static_cast<int>(*colors);
  if (olla_mode.has_value()) {
    SNUG_ASSIGN_OR_RETURN(options.olla.mode, ParseOllaMode(*olla_mode));
  }
  for (size_t i = 0; i < kOlla.size(); ++i) {
    if (olla[i].has_value()) options.olla.*kOlla[i].field = *olla[i];
  }
  SNUG_RETURN_IF_ERROR(ExpectReaders(planners));
  return options;
}

}  // namespace snug::core::cli
