// `snug fit NET --memory-limit=8GiB` finds the largest batch whose plan fits.
#include <absl/strings/str_cat.h>
#include <absl/strings/str_format.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <utility>

#include "engine/base/status.h"
#include "engine/base/text/json.h"
#include "engine/compile/control/stash_limit.h"
#include "engine/compile/pipeline.h"
#include "proto/text_loader.h"
#include "tools/cli/command.h"
#include "tools/cli/flags/compile_flags.h"
#include "tools/cli/flags/flags.h"
#include "tools/cli/flags/memory_flags.h"
#include "tools/cli/flags/optimizer_flags.h"

namespace snug::core::cli {
namespace {

constexpr int64_t kMaxBatch = (int64_t{1} << 31) - 1;

struct FitRow {
  std::string strategy;
  bool training = false;
  int64_t batch = 0;  // 0: not even one sample fits
  int64_t arena = 0;
  bool proven = false;
  std::string ended_by;  // why one sample more, or one for each micro-batch, is too many
};

// Compiles each batch once, even if several strategies ask for it.
class BatchCompiler {
 public:
  BatchCompiler(const LoadedNetwork& network, CompileOptions options)
      : network_(network), options_(std::move(options)) {}

  // A step of micro-batches of so many samples needs two programs in one arena. The last one has all the Variables.
  absl::StatusOr<FitRow> Plan(int64_t samples, const MemoryOptions& memory) {
    const int64_t batch = samples * options_.micro_batches.count;
    FitRow row{.strategy = memory.strategy, .training = options_.training, .batch = batch, .proven = true};
    SNUG_RETURN_IF_ERROR(AddProgram(batch, true, memory, &row));
    if (options_.micro_batches.count > 1) SNUG_RETURN_IF_ERROR(AddProgram(batch, false, memory, &row));
    if (row.arena > memory.memory_limit) return absl::ResourceExhaustedError("the two together");
    return row;
  }

 private:
  absl::Status AddProgram(int64_t batch, bool last, const MemoryOptions& memory, FitRow* row) {
    auto it = compiled_.find({batch, last});
    if (it == compiled_.end()) {
      options_.batch = batch;
      options_.micro_batches.last = last;
      SNUG_ASSIGN_OR_RETURN(Compiled compiled,
                            CompileGraph(network_.network, network_.source_map, OpRegistry::Builtin(), options_));
      it = compiled_.emplace(std::pair(batch, last), std::move(compiled)).first;
    }
    SNUG_RETURN_IF_ERROR(PlanAndLower(it->second, memory));
    const MemoryPlan& plan = it->second.executable.memory;
    if (last) state_bytes_ = plan.state_plan.arena_bytes;
    row->arena = std::max(row->arena, state_bytes_ + plan.step_bytes());
    row->proven = row->proven && plan.proven();
    return absl::OkStatus();
  }

  const LoadedNetwork& network_;
  CompileOptions options_;
  std::map<std::pair<int64_t, bool>, Compiled> compiled_;
  int64_t state_bytes_ = 0;  // those of the last micro-batch's program
};

// What a batch is too large for: the flag that limits it, or else the network itself.
std::string WhatEnds(const absl::Status& refused) {
  if (IsAboutStashLimit(refused)) return "stash-limit";
  return absl::IsResourceExhausted(refused) ? "memory-limit" : "network";
}

// Doubles the batch, then halves the interval. Larger batches need more, except where a planner's search is lucky: so
// the batch that is found certainly fits, and the next one, or one near it, does not. With micro-batches it is their
// size that is looked for.
absl::StatusOr<FitRow> LargestBatch(BatchCompiler& compiler, const MemoryOptions& memory, int64_t max_batch,
                                    bool training) {
  FitRow best{.strategy = memory.strategy, .training = training};
  std::string ended_by = "max-batch";
  absl::Status one_refused;
  int64_t fits = 0, too_large = max_batch + 1;
  for (int64_t batch = 1; fits + 1 < too_large;) {
    absl::StatusOr<FitRow> row = compiler.Plan(batch, memory);
    // A batch that the network refuses because its sizes overflow is too large as well. But if neither one sample nor
    // two can be compiled (statistics of a batch need two), that is an error.
    const bool too_much = absl::IsResourceExhausted(row.status());
    if (!row.ok() && !too_much) {
      if (!absl::IsInvalidArgument(row.status())) return row.status();
      if (batch == 1 && max_batch > 1) {
        one_refused = row.status();
        fits = 1;
        batch = 2;
        continue;
      }
      if (best.batch == 0) return one_refused.ok() ? row.status() : one_refused;
    }
    if (row.ok()) {
      best = *std::move(row);
      fits = batch;
      batch = too_large > max_batch ? std::min(2 * batch, max_batch) : fits + (too_large - fits) / 2;
    } else {
      too_large = batch;
      ended_by = WhatEnds(row.status());
      batch = fits + (too_large - fits) / 2;
    }
  }
  best.ended_by = std::move(ended_by);
  return best;
}

void PrintJson(const std::string& network, int64_t limit, const std::vector<FitRow>& rows) {
  Json json;
  json.Object().Key("network").String(network).Key("memory_limit").Number(limit).Key("rows").Array();
  for (const FitRow& row : rows) {
    json.Object().Key("strategy").String(row.strategy).Key("mode").String(ModeName(row.training));
    json.Key("batch").Number(row.batch).Key("arena").Number(row.arena).Key("proven").Bool(row.proven);
    json.Key("ended_by").String(row.ended_by).End();
  }
  json.End().End();
  std::puts(json.text().c_str());
}

void PrintTable(const std::string& network, int64_t limit, const std::vector<FitRow>& rows) {
  absl::PrintF("%s in %d bytes; MB = 10^6 bytes\n\n%-9s %-9s %10s %14s  %-6s  %s\n", network, limit, "mode", "strategy",
               "batch", "arena MB", "proven", "ended by");
  for (const FitRow& row : rows) {
    absl::PrintF("%-9s %-9s %10d %14.3f  %-6s  %s\n", ModeName(row.training), row.strategy, row.batch,
                 static_cast<double>(row.arena) * 1e-6, row.proven ? "yes" : "no", row.ended_by);
  }
}

}  // namespace

absl::StatusOr<int> RunFit(const Arguments& arguments) {
  CompileFlags compile_flags;
  StrategyListFlags strategy_flags;
  int64_t max_batch = 65536;
  int64_t accumulate = 1;
  bool json = false;
  Flags flags("snug fit NET --memory-limit=SIZE [flags]",
              "The largest batch whose planned bytes, Variables included, fit in a limit: for every strategy, forward\n"
              "only and in training. 0: not even one sample fits. \"Ended by\" is what one more is too many for:\n"
              "memory-limit, stash-limit, max-batch, or the network, whose sizes would overflow.");
  strategy_flags.AddLimitTo(flags, "what there is: bytes, or with a unit: 500MB, 8GiB; default: the model file's");
  flags.Add("max-batch", &max_batch, "the search ends here; default 65536", 1, kMaxBatch);
  flags.Add("accumulate", &accumulate, "micro-batches of a training step, as snug train takes it; default 1", 1,
            kMaxBatch);
  compile_flags.AddTo(flags);
  strategy_flags.AddTo(flags);
  AddJsonFlag(flags, &json);
  OptimizerFlags optimizer;
  optimizer.AddTo(flags);
  SNUG_ASSIGN_OR_RETURN(const std::string file, flags.ParseOne(arguments, "a model file"));
  if (compile_flags.batch != 0) return absl::InvalidArgumentError("--batch: it is what is looked for");
  SNUG_ASSIGN_OR_RETURN(CompileOptions options, compile_flags.Options(strategy_flags.streams.count));
  SNUG_ASSIGN_OR_RETURN(const LoadedNetwork loaded, LoadNetworkFile(file));
  SNUG_ASSIGN_OR_RETURN(const std::vector<MemoryOptions> strategies, strategy_flags.Options(loaded));
  SNUG_RETURN_IF_ERROR(optimizer.SetIn(loaded, &options));
  const int64_t limit = strategies[0].memory_limit;
  if (limit == 0) return absl::InvalidArgumentError("--memory-limit is needed, as in --memory-limit=8GiB");
  if (accumulate > max_batch) {
    return absl::InvalidArgumentError(
        absl::StrCat("--accumulate: expected at most --max-batch, ", max_batch, ", found ", accumulate));
  }
  std::vector<FitRow> rows;
  for (const bool training : {false, true}) {
    options.training = training;
    options.micro_batches.count = training ? accumulate : 1;
    BatchCompiler compiler(loaded, options);
    for (const MemoryOptions& strategy : strategies) {
      const int64_t most = max_batch / options.micro_batches.count;
      SNUG_ASSIGN_OR_RETURN(rows.emplace_back(), LargestBatch(compiler, strategy, most, training));
    }
  }
  if (json) {
    PrintJson(loaded.network.name(), limit, rows);
  } else {
    PrintTable(loaded.network.name(), limit, rows);
  }
  return 0;
}

}  // namespace snug::core::cli
