// `snug fit NET --memory-limit=8GiB`: the largest batch whose plan fits.
#include <absl/strings/str_cat.h>
#include <absl/strings/str_format.h>

#include <cstdio>
#include <map>
#include <utility>

#include "engine/base/status.h"
#include "engine/compile/pipeline.h"
#include "proto/text_loader.h"
#include "tools/cli/byte_size.h"
#include "tools/cli/command.h"
#include "tools/cli/flags.h"
#include "tools/cli/json.h"
#include "tools/cli/memory_flags.h"

namespace snug::cli {
namespace {

constexpr int64_t kMaxBatch = (int64_t{1} << 31) - 1;

struct Row {
  std::string strategy;
  bool training = false;
  int64_t batch = 0;  // 0: not even one sample fits
  int64_t arena = 0;
  bool proven = false;
};

const char* Mode(bool training) { return training ? "training" : "forward"; }

// Compiles each batch once, whatever the number of strategies that ask for it.
class BatchCompiler {
 public:
  BatchCompiler(const LoadedNetwork& network, CompileOptions options)
      : network_(network), options_(std::move(options)) {}

  absl::StatusOr<Row> Plan(int64_t batch, const MemoryOptions& memory) {
    auto it = compiled_.find(batch);
    if (it == compiled_.end()) {
      options_.batch = batch;
      SNUG_ASSIGN_OR_RETURN(Compiled compiled,
                            CompileGraph(network_.network, network_.source_map, OpRegistry::Builtin(), options_));
      it = compiled_.emplace(batch, std::move(compiled)).first;
    }
    SNUG_RETURN_IF_ERROR(PlanAndLower(it->second, memory));
    const MemoryPlan& plan = it->second.executable.memory;
    return Row{memory.strategy, options_.training, batch, plan.total_bytes(), plan.proven()};
  }

 private:
  const LoadedNetwork& network_;
  CompileOptions options_;
  std::map<int64_t, Compiled> compiled_;
};

bool RefusesBatch(const absl::Status& status) {
  return status.code() == absl::StatusCode::kResourceExhausted || status.code() == absl::StatusCode::kInvalidArgument;
}

// Doubles, then halves the interval. Larger batches need more but for the chance in a planner's search: what is found
// fits for certain, and the next batch, or one near it, does not.
absl::StatusOr<Row> LargestBatch(BatchCompiler& compiler, const MemoryOptions& memory, int64_t limit, int64_t max_batch,
                                 bool training) {
  Row best{.strategy = memory.strategy, .training = training};
  int64_t too_large = max_batch + 1;
  for (int64_t batch = 1; best.batch + 1 < too_large;) {
    absl::StatusOr<Row> row = compiler.Plan(batch, memory);
    // A batch that the network refuses, as its sizes are no numbers any more, is too large, too; that one sample cannot
    // be compiled is an error.
    if (!row.ok() && (batch == 1 || !RefusesBatch(row.status()))) return row.status();
    if (row.ok() && row->arena <= limit) {
      best = *std::move(row);
      batch = too_large > max_batch ? std::min(2 * batch, max_batch) : best.batch + (too_large - best.batch) / 2;
    } else {
      too_large = batch;
      batch = best.batch + (too_large - best.batch) / 2;
    }
  }
  return best;
}

void PrintJson(const std::string& network, int64_t limit, const std::vector<Row>& rows) {
  Json json;
  json.Object().Key("network").String(network).Key("memory_limit").Number(limit).Key("rows").Array();
  for (const Row& row : rows) {
    json.Object().Key("strategy").String(row.strategy).Key("mode").String(Mode(row.training));
    json.Key("batch").Number(row.batch).Key("arena").Number(row.arena).Key("proven").Bool(row.proven).End();
  }
  json.End().End();
  std::puts(json.text().c_str());
}

void PrintTable(const std::string& network, int64_t limit, const std::vector<Row>& rows) {
  absl::PrintF("%s in %d bytes; MB = 10^6 bytes\n\n%-9s %-9s %10s %14s  %s\n", network, limit, "mode", "strategy",
               "batch", "arena MB", "proven");
  for (const Row& row : rows) {
    absl::PrintF("%-9s %-9s %10d %14.3f  %s\n", Mode(row.training), row.strategy, row.batch,
                 static_cast<double>(row.arena) * 1e-6, row.proven ? "yes" : "no");
  }
}

}  // namespace

absl::StatusOr<int> RunFit(const Arguments& arguments) {
  CompileFlags compile_flags;
  StrategyListFlags strategy_flags;
  std::string limit_text;
  int64_t max_batch = 65536;
  bool json = false;
  Flags flags("snug fit NET --memory-limit=SIZE [flags]",
              "The largest batch whose planned bytes, Variables included, fit in a limit: for every strategy, forward\n"
              "only and in training. 0: not even one sample fits.");
  flags.Add("memory-limit", &limit_text, "bytes, or with a unit: 500MB, 8GiB");
  flags.Add("max-batch", &max_batch, "the search ends here; default 65536", 1, kMaxBatch);
  compile_flags.AddTo(flags);
  strategy_flags.AddTo(flags);
  flags.Add("json", &json, "print one JSON document");
  SNUG_ASSIGN_OR_RETURN(const std::string file, flags.ParseOne(arguments, "a model file"));
  if (limit_text.empty()) return absl::InvalidArgumentError("--memory-limit is needed, as in --memory-limit=8GiB");
  SNUG_ASSIGN_OR_RETURN(const int64_t limit, ParseByteSize("--memory-limit", limit_text));
  if (compile_flags.batch != 0) return absl::InvalidArgumentError("--batch: it is what is looked for");
  SNUG_ASSIGN_OR_RETURN(CompileOptions options, compile_flags.Options());
  SNUG_ASSIGN_OR_RETURN(const std::vector<MemoryOptions> strategies, strategy_flags.Options());

  SNUG_ASSIGN_OR_RETURN(const LoadedNetwork loaded, LoadNetworkFile(file));
  std::vector<Row> rows;
  for (const bool training : {false, true}) {
    options.training = training;
    BatchCompiler compiler(loaded, options);
    for (const MemoryOptions& strategy : strategies) {
      SNUG_ASSIGN_OR_RETURN(rows.emplace_back(), LargestBatch(compiler, strategy, limit, max_batch, training));
    }
  }
  if (json) {
    PrintJson(loaded.network.name(), limit, rows);
  } else {
    PrintTable(loaded.network.name(), limit, rows);
  }
  return 0;
}

}  // namespace snug::cli
