#include "tools/cli/flags/memory_flags.h"

#include <absl/algorithm/container.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/str_join.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <utility>

#include "engine/base/machine.h"
#include "engine/base/max_threads.h"
#include "engine/base/status.h"
#include "engine/compile/memory/memory_settings.h"
#include "memory/ilp/solver.h"
#include "memory/share/parallel.h"
#include "memory/strategies.h"
#include "tools/cli/command.h"
#include "tools/cli/flags/proto_flags.h"
#include "tools/cli/flags/run_flags.h"

namespace snug::core::cli {
namespace {

std::string StrategyNames() {
  return absl::StrJoin(memory::Strategies(), ", ", [](std::string* out, const memory::Strategy& strategy) {
    absl::StrAppend(out, strategy.name, strategy.name == memory::kDefaultStrategy ? " (default)" : "");
  });
}

std::string StreamPolicyNames() { return absl::StrJoin(StreamPolicies(), ", "); }

}  // namespace

void CompileFlags::AddTo(Flags& flags) {
  AddDeviceFlag(flags, &device);
  flags.Add("batch", &batch, absl::StrCat("samples in a step; default: ", batch_otherwise), 1);
  flags.Add(
      "threads", &threads,
      "threads of each op; default: every processor, or where --streams run ops side by side, each stream's share "
      "of them",
      1, kMaxThreads);
  flags.Add("precision", &precision,
            "float32 (default), bfloat16 (with float32 parameters, without --stochastic-rounding) or float64");
  flags.Add("stochastic-rounding", &stochastic_rounding,
            "in bfloat16: parameters and what optimizers keep are bfloat16 too, rounded up or down at random; default "
            "false");
  flags.Add("disable-passes", &disabled_passes, "compiler passes to leave out, by name");
  flags.Add(
      "loops", &loops,
      "which loops stay one node, whose body is compiled once: by-size (default; those with more than 2000 nodes in "
      "all their rounds, and those that compute rounds anew), rolled (all; on the CPU only) or unrolled (none, as "
      "always on a GPU); the bits are the same, with few exceptions (docs/model_files.md)");
  flags.Add(
      "recompute-rounds", &recompute_rounds,
      "of loops that are trained and stay one node: keeps for gradients what is carried, every so many rounds, and "
      "computes the rounds between anew (the last chunk of them may be shorter); -1: about the square root of their "
      "number; default 0: keeps all",
      -1);
  flags.Add(
      "stash-limit", &stash_limit,
      "size such as 500MB or 8GiB: the most that loops keep of their rounds for gradients, in all; where it is "
      "less than all of it, rounds are computed anew, of as few loops and in chunks as long as fit; of loops inside "
      "others only where nothing else fits, and about the square root of their rounds at a time; default: none");
  flags.Add("tf32", &tf32,
            "on a GPU: products and convolutions of float32 values round their factors to TF32's 10 bits of mantissa, "
            "which tensor cores take; default false");
  flags.Add(
      "fast", &fast,
      "on a GPU: gradients of convolutions may add in another sequence, with other bits, each time; what runs them "
      "says which, as does `snug compile`; default false");
  flags.Add("split-products", &split_products,
            "on a CPU with AMX: large products of float32 matrices, and convolutions of 1 x 1 taps, are sums of six "
            "products of their pieces in bfloat16, "
            "which is faster and as exact, but for infinities, numbers from 3.39e38 on, and numbers and products below "
            "1e-31; other last bits; default false");
  flags.Add("plain-kernels", &plain_kernels,
            "the reference kernels, which are slow; on a GPU: Snug's own, none of cuBLASLt or cuDNN");
  flags.Add("tuning", &tuning,
            "what `snug tune` found to be fastest on this machine: kernels, passes, and --threads unless it is given");
  flags.Add("keep-inputs", &keep_inputs, "what is fed stays for the next step; default: its bytes are used again");
  AddLessMemoryTo(flags);
}

void CompileFlags::AddLessMemoryTo(Flags& flags) {
  flags.Add(
      "update-as-made", &update_as_made,
      "on the CPU, training: gradients of large dense weights and tables are made in blocks of rows that their "
      "updates use at once, so that the whole gradient takes no memory, also where sums have other last bits then; "
      "default: only where they have the same");
  flags.Add("sparse-tables", &sparse_tables,
            "on the CPU, training: tables of embeddings, patterns of names, whose updates leave the rows alone that a "
            "step did not look up, whatever the optimizer does to them otherwise; !x: the gradient of x is whole; "
            "default: rows are left alone where that gives the same bits (sgd, adagrad without decay)");
  flags.Add("recompute-sweeps", &recompute_sweeps,
            "on the CPU, training: batch norm, layer norm, activations and pooling are computed again for the backward "
            "pass where what they are made of stays in any case; default false");
  flags.Add("gradients-from-outputs", &gradients_from_outputs,
            "on the CPU, training: the gradients of layer norm, gelu, and batch norm without an activation come from "
            "what these "
            "gave, where what they were given would be kept for them alone; equal to rounding, and an error where a "
            "norm's weight "
            "is too small beside its bias; default false");
  flags.Add(
      "loss-in-blocks", &loss_in_blocks,
      "on the CPU, training: the last dense layer, its softmax_cross_entropy and their gradients are done in blocks "
      "of 256 rows, so that the logits of all rows are never there; equal to rounding; default false");
  flags.Add(
      "half-byte-indices", &half_byte_indices,
      "on the CPU, training: the indices that max pooling keeps for its gradient are two to a byte, of windows of at "
      "most 16 elements and 16, 32, ... channels side by side; the same bits; default false");
}

void CompileFlags::AddKeepDerivedTo(Flags& flags) {
  flags.Add("keep-derived", &keep_derived,
            "on the CPU, forward only: what follows from the weights alone (packed weights, batch norm within "
            "convolutions) is "
            "computed once and kept, which is faster and takes memory; default: in every step");
}

void CompileFlags::AddOnlyTo(Flags& flags) {
  flags.Add("only", &only, "forward only: what is computed, by name, and nothing else; default: all outputs");
}

absl::Status CompileFlags::CheckForwardOnly(bool forward) const {
  if (forward || (!keep_derived && only.empty())) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("--", keep_derived ? "keep-derived" : "only",
                                                 " is for the forward pass alone: expected --forward beside it"));
}

absl::StatusOr<CompileOptions> CompileFlags::Options(int64_t streams) const {
  std::string without_fusion;
  absl::StatusOr<CompileOptions> options =
      SettleCompile(*this, streams, OptionPlaces::OnCommandLine(), &without_fusion);
  if (!without_fusion.empty()) std::fprintf(stderr, "without the pass fuse_elementwise: %s\n", without_fusion.c_str());
  return options;
}

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

}  // namespace

namespace {

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
  std::vector<std::string> planners = {planned ? absl::StrCat("--plan=", plan_file) : options.strategy};
  if (!streams.policy.empty()) planners.push_back(streams.policy);
  SNUG_ASSIGN_OR_RETURN(options.planner, planner.Options(planners));
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
  std::vector<std::string> planners = names;
  if (!streams.policy.empty()) planners.push_back(streams.policy);
  SNUG_ASSIGN_OR_RETURN(const memory::PlannerOptions planner_options, planner.Options(planners));
  const bool limited = planner_options.work_limit > 0 || planner_options.time_limit > 0;
  SNUG_ASSIGN_OR_RETURN(const MemoryOptions merged, MergeMemory({OnCommandLine(given), InFile(file)}));
  if (!absl::c_linear_search(names, kDynamicMemory)) SNUG_RETURN_IF_ERROR(ExpectNothingDynamic(OnCommandLine(given)));
  std::vector<MemoryOptions> list;
  for (const std::string& name : names) {
    SNUG_RETURN_IF_ERROR(CheckStrategyName(name));
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
