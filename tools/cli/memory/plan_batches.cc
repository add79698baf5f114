#include "tools/cli/memory/plan_batches.h"

#include <absl/strings/numbers.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/str_format.h>
#include <absl/strings/str_join.h>
#include <absl/strings/str_split.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <limits>
#include <utility>
#include <vector>

#include "engine/base/status.h"
#include "engine/base/text/json.h"
#include "engine/compile/memory/batch_steps.h"
#include "memory/batch/batch_plans.h"
#include "memory/strategies.h"
#include "tools/cli/command.h"

namespace snug::core::cli {
namespace {

using memory::RangePlan;
using memory::TriedBatch;

constexpr double kUsualExcess = 0.5;  // per cent
constexpr int64_t kLastBatch = std::numeric_limits<int32_t>::max();

absl::StatusOr<std::pair<int64_t, int64_t>> ParseRange(const std::string& text) {
  const std::vector<std::string> ends = absl::StrSplit(text, ':');
  int64_t first = 0, last = 0;
  const bool numbers = ends.size() == 2 && absl::SimpleAtoi(ends[0], &first) && absl::SimpleAtoi(ends[1], &last);
  if (numbers && first >= 1 && first <= last && last <= kLastBatch) return std::pair(first, last);
  const char* const what = !numbers       ? ""
                           : first < 1    ? ": the first batch has no sample"
                           : first > last ? ": the last batch is smaller than the first"
                                          : ": the last batch is too large";
  return absl::InvalidArgumentError(absl::StrCat("--batch-range: expected FIRST:LAST with 1 <= FIRST <= LAST <= ",
                                                 kLastBatch, ", as in 1:256, found \"", text, "\"", what));
}

// Returns the largest batch of a range that fits, where one of those that were tried does not. All up to `fits` do.
absl::StatusOr<int64_t> LargestThatFits(const RangePlan& range, int64_t fits, const memory::StepOfBatch& step_of,
                                        int64_t limit) {
  int64_t too_large = std::find_if(range.tried.begin(), range.tried.end(), [&](const TriedBatch& one) {
                        return one.bytes > limit;
                      })->batch;
  for (const TriedBatch& one : range.tried) {
    if (one.batch < too_large) fits = one.batch;
  }
  while (fits + 1 < too_large) {
    const int64_t batch = fits + (too_large - fits) / 2;
    SNUG_ASSIGN_OR_RETURN(const memory::BatchStep step, step_of(batch));
    const absl::StatusOr<memory::TaskPlan> plan = range.PlanFor(step.tasks);
    SNUG_RETURN_IF_ERROR(Annotate(plan.status(), absl::StrCat("batch ", batch)));
    (step.other_bytes + plan->placement.plan.arena_bytes <= limit ? fits : too_large) = batch;
  }
  return fits;
}

absl::Status CheckLimit(const std::vector<RangePlan>& ranges, const memory::StepOfBatch& step_of,
                        const MemoryOptions& memory) {
  if (memory.memory_limit == 0) return absl::OkStatus();
  const int64_t first = ranges.front().first;
  for (const RangePlan& range : ranges) {
    for (const TriedBatch& one : range.tried) {
      if (one.bytes <= memory.memory_limit) continue;
      SNUG_ASSIGN_OR_RETURN(const int64_t fits, LargestThatFits(range, range.first - 1, step_of, memory.memory_limit));
      return absl::ResourceExhaustedError(
          absl::StrCat("memory by ", memory.strategy, " takes ", one.bytes, " bytes for batch ", one.batch,
                       ", the limit is ", memory.memory_limit, "; ",
                       fits >= first ? absl::StrCat("all up to batch ", fits, " fit: --batch-range=", first, ":", fits)
                                     : absl::StrCat("not even batch ", first, " fits")));
    }
  }
  return absl::OkStatus();
}

std::string BatchesText(int64_t first, int64_t last) {
  return first == last ? absl::StrCat("batch ", first) : absl::StrCat("batches ", first, " to ", last);
}

std::string LineText(const memory::BytesLine& line) {
  std::string text = absl::StrCat(line.fixed);
  if (line.per_sample != 0) absl::StrAppend(&text, " + ", line.per_sample, " b");
  if (line.most_below > 0) absl::StrAppend(&text, ", or up to ", line.most_below, " less");
  return text;
}

double Percent(int64_t bytes, int64_t of) {
  return of == 0 ? 0 : 100.0 * static_cast<double>(bytes - of) / static_cast<double>(of);
}

std::string EndText(const TriedBatch& one) {
  return absl::StrFormat("%d bytes for batch %d; by a plan of its own %d (%+.3f %%), at least %d (%+.3f %%)", one.bytes,
                         one.batch, one.best_bytes, Percent(one.bytes, one.best_bytes), one.lower_bound,
                         Percent(one.bytes, one.lower_bound));
}

// What most of all tried batches took to plan for, by their range's plan and alone.
struct Slowest {
  double again = 0, alone = 0;
  size_t tried = 0;

  explicit Slowest(const std::vector<RangePlan>& ranges) {
    for (const RangePlan& range : ranges) {
      for (const TriedBatch& one : range.tried) {
        again = std::max(again, one.seconds);
        alone = std::max(alone, one.best_seconds);
        ++tried;
      }
    }
  }
};

void PrintRanges(const std::vector<RangePlan>& ranges, double seconds) {
  for (const RangePlan& range : ranges) {
    const bool single = range.first == range.last;
    absl::PrintF("\n%s%s: %s bytes\n", BatchesText(range.first, range.last),
                 single ? "" : absl::StrCat(", by the plan for ", range.planned_for), LineText(range.Line()));
    if (!range.begins_by.empty()) absl::PrintF("  begins here: %s\n", range.begins_by);
    absl::PrintF("  %s\n", EndText(range.tried.front()));
    if (range.tried.size() > 1) absl::PrintF("  %s\n", EndText(range.tried.back()));
    if (single) continue;
    absl::PrintF("  %d of its %d batches were tried: at most %.3f %% more than a plan of their own\n",
                 range.tried.size(), range.last - range.first + 1, 100 * range.WorstExcess());
  }
  const Slowest slowest(ranges);
  absl::PrintF(
      "\nall bytes with those of the Variables; \"at least\" holds over %s\n"
      "planning took %.3f s, with compiling for %d of the batches; offsets for a batch by its range's plan, "
      "verified,\n"
      "at most %.3f ms, a plan for one batch alone at most %.3f ms\n",
      ranges.front().over_all_orders ? "all orders" : "the order of the batch's own plan", seconds, slowest.tried,
      1e3 * slowest.again, 1e3 * slowest.alone);
}

void WriteBytes(Json& json, const TriedBatch& one) {
  json.Object().Key("batch").Number(one.batch).Key("total").Number(one.bytes);
  json.Key("total_alone").Number(one.best_bytes).Key("lower_bound").Number(one.lower_bound);
  json.Key("seconds").Number(one.seconds).Key("seconds_alone").Number(one.best_seconds).End();
}

// The plan at both ends of a range: where each buffer lies.
absl::Status WriteRange(Json& json, const RangePlan& range, const memory::StepOfBatch& step_of) {
  const memory::BytesLine line = range.Line();
  json.Object().Key("first").Number(range.first).Key("last").Number(range.last);
  json.Key("planned_for").Number(range.planned_for).Key("begins_by").String(range.begins_by);
  json.Key("fixed_bytes").Number(line.fixed).Key("bytes_per_sample").Number(line.per_sample);
  json.Key("at_most_less").Number(line.most_below).Key("worst_excess").Number(range.WorstExcess());
  json.Key("tried").Array();
  for (const TriedBatch& one : range.tried) WriteBytes(json, one);
  json.End().Key("ends").Array();
  for (const int64_t batch : {range.first, range.last}) {
    SNUG_ASSIGN_OR_RETURN(const memory::BatchStep step, step_of(batch));
    SNUG_ASSIGN_OR_RETURN(const memory::TaskPlan plan, range.PlanFor(step.tasks));
    json.Object().Key("batch").Number(batch).Key("step").Number(plan.placement.plan.arena_bytes);
    json.Key("order").Array();
    for (const int32_t task : plan.order) json.String(step.tasks.names[static_cast<size_t>(task)]);
    json.End().Key("buffers").Array();
    for (size_t i = 0; i < plan.problem.buffers.size(); ++i) {
      const memory::Buffer& buffer = plan.problem.buffers[i];
      json.Object().Key("name").String(buffer.name).Key("bytes").Number(buffer.size_bytes);
      json.Key("offset").Number(plan.placement.plan.offsets[i]);
      json.Key("first").Number(static_cast<int64_t>(buffer.first));
      json.Key("last").Number(static_cast<int64_t>(buffer.last)).End();
    }
    json.End().End();
  }
  json.End().End();
  return absl::OkStatus();
}

std::vector<absl::string_view> StrategiesOfOffsets() {
  std::vector<absl::string_view> names;
  for (const memory::Strategy& one : memory::Strategies()) {
    if (!one.in_blocks) names.push_back(one.name);
  }
  return names;
}

absl::Status CheckOptions(const CompileOptions& options, const std::string& other_flag) {
  const auto refuse = [](absl::string_view flag, absl::string_view why) {
    return absl::InvalidArgumentError(absl::StrCat("--batch-range excludes ", flag, ": ", why));
  };
  if (options.batch != 0) return refuse("--batch", "it says which batches");
  if (!other_flag.empty()) return refuse(other_flag, "that is of the plan for one batch, which --batch gives");
  if (options.memory.strategy == kDynamicMemory) return refuse("--memory=dynamic", "there is no plan to have for them");
  SNUG_ASSIGN_OR_RETURN(const memory::Strategy* const strategy, memory::FindStrategy(options.memory.strategy));
  if (strategy->in_blocks) {
    return refuse(absl::StrCat("--memory=", strategy->name),
                  absl::StrCat("such plans have whole blocks, and one for many batches keeps only what lies on what; ",
                               absl::StrJoin(StrategiesOfOffsets(), ", "), " have offsets"));
  }
  if (options.memory.streams > 1 || !options.memory.stream_policy.empty()) {
    return refuse("--streams and --stream-policy", "what rests on what is found for one stream");
  }
  if (options.keep_derived) return refuse("--keep-derived", "what is kept has a plan of its own");
  return absl::OkStatus();
}

}  // namespace

void BatchRangeFlags::AddTo(Flags& flags) {
  flags.Add("batch-range", &range,
            "FIRST:LAST, as 1:256: plans for all these batches, each for as many of them as it serves well; prints "
            "their bytes over the batch");
  flags.Add("batch-excess", &excess,
            "--batch-range: per cent that such a plan may take more than one for the batch alone; default 0.5");
  flags.Add("batch-every", &every,
            "--batch-range: every batch is tried; default: the ends, doubles, and where ranges end");
}

absl::Status BatchRangeFlags::Check() const {
  if (asked() || (!excess.has_value() && !every)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(every ? "--batch-every" : "--batch-excess", " is about --batch-range, which is not given"));
}

absl::StatusOr<int> RunPlanBatches(const BatchRangeFlags& flags, const LoadedNetwork& loaded,
                                   const CompileOptions& options, bool json, const std::string& other_flag) {
  SNUG_RETURN_IF_ERROR(CheckOptions(options, other_flag));
  SNUG_ASSIGN_OR_RETURN(const auto range, ParseRange(flags.range));
  const double excess = flags.excess.value_or(kUsualExcess);
  if (!std::isfinite(excess) || excess < 0) {
    return absl::InvalidArgumentError(absl::StrCat("--batch-excess: expected per cent of at least 0, found ", excess));
  }
  const auto begin = std::chrono::steady_clock::now();
  const memory::StepOfBatch step_of =
      StepsOverBatches(loaded.network, loaded.source_map, OpRegistry::Builtin(), options);
  SNUG_ASSIGN_OR_RETURN(const std::vector<RangePlan> ranges,
                        memory::PlanForBatches(range.first, range.second, step_of,
                                               {.strategy = options.memory.strategy,
                                                .planner = options.memory.planner,
                                                .most_excess = excess / 100,
                                                .every_batch = flags.every}));
  SNUG_RETURN_IF_ERROR(CheckLimit(ranges, step_of, options.memory));
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  if (!json) {
    absl::PrintF("%s, %s, %s: %d %s by %s\n", loaded.network.name(), BatchesText(range.first, range.second),
                 options.training ? "training" : "forward only", ranges.size(), ranges.size() == 1 ? "plan" : "plans",
                 options.memory.strategy);
    PrintRanges(ranges, seconds);
    return 0;
  }
  Json document;
  document.Object().Key("network").String(loaded.network.name());
  document.Key("first").Number(range.first).Key("last").Number(range.second);
  document.Key("mode").String(ModeName(options.training)).Key("strategy").String(options.memory.strategy);
  document.Key("bound_over").String(ranges.front().over_all_orders ? "all orders" : "this order");
  document.Key("seconds").Number(seconds).Key("ranges").Array();
  for (const RangePlan& one : ranges) SNUG_RETURN_IF_ERROR(WriteRange(document, one, step_of));
  document.End().End();
  std::puts(document.text().c_str());
  return 0;
}

}  // namespace snug::core::cli
