// `snug tune NET` measures how steps are fastest on this machine, and keeps that in a file for --tuning.
#include <absl/strings/str_cat.h>
#include <absl/strings/str_format.h>

#include <cstdio>
#include <utility>

#include "engine/base/status.h"
#include "engine/base/text/json.h"
#include "engine/base/text/output_file.h"
#include "engine/run/observe/tuner.h"
#include "engine/train/run_folder.h"
#include "proto/text_loader.h"
#include "tools/cli/command.h"
#include "tools/cli/flags/compile_flags.h"
#include "tools/cli/flags/flags.h"
#include "tools/cli/flags/memory_flags.h"
#include "tools/cli/flags/output_flag.h"
#include "tools/cli/flags/run_flags.h"

namespace snug::core::cli {
namespace {

const char* NameOf(const TuneReport::Candidate& candidate) {
  return candidate.choice.empty() ? "default" : candidate.choice.c_str();
}

void PrintJson(const TuneReport& report, const std::string& output) {
  Json json;
  const Tuning& tuning = report.tuning;
  json.Object().Key("network").String(tuning.network).Key("batch").Number(tuning.batch);
  json.Key("device").String(tuning.platform.device).Key("instructions").String(tuning.platform.instructions);
  json.Key("library").String(tuning.platform.library);
  json.Key("threads").Number(static_cast<int64_t>(tuning.threads)).Key("disabled_passes").Array();
  for (const std::string& pass : tuning.disabled_passes) json.String(pass);
  json.End().Key("trials").Array();
  for (const TuneReport::Trial& trial : report.trials) {
    json.Object().Key("what").String(trial.what).Key("best_ms").Number(trial.best_ms).Key("ms").Number(trial.ms);
    json.Key("taken").Bool(trial.taken).End();
  }
  json.End().Key("kernels").Array();
  for (const TuneReport::Kernel& kernel : report.kernels) {
    json.Object().Key("for").String(kernel.key).Key("node").String(kernel.node);
    json.Key("nodes").Number(static_cast<int64_t>(kernel.nodes)).Key("candidates").Array();
    for (const TuneReport::Candidate& candidate : kernel.candidates) {
      json.Object().Key("choice").String(NameOf(candidate)).Key("ms");
      if (candidate.ms < 0) {
        json.Null().End();
      } else {
        json.Number(candidate.ms).End();
      }
    }
    json.End().Key("chosen").String(NameOf(kernel.candidates[kernel.chosen])).End();
  }
  json.End().Key("before_ms").Number(report.before_ms).Key("after_ms").Number(report.after_ms);
  json.Key("faster").Bool(report.faster).Key("output").String(output).End();
  std::puts(json.text().c_str());
}

void PrintTable(const TuneReport& report, const std::string& output) {
  absl::PrintF("\n%-24s %5s  %s\n", "node", "nodes",
               "candidates, ms of one node with its reorders and casts; * chosen");
  for (const TuneReport::Kernel& kernel : report.kernels) {
    std::string candidates;
    for (size_t i = 0; i < kernel.candidates.size(); ++i) {
      const TuneReport::Candidate& candidate = kernel.candidates[i];
      absl::StrAppend(&candidates, i == 0 ? "" : "   ", i == kernel.chosen ? "*" : "", NameOf(candidate), " ",
                      candidate.ms < 0 ? "-" : absl::StrFormat("%.3f", candidate.ms));
    }
    absl::PrintF("%-24s %5d  %s\n", kernel.node, kernel.nodes, candidates);
  }
  absl::PrintF("\na step took %.3f ms before, %.3f ms after (in turn)%s\n", report.before_ms, report.after_ms,
               report.faster ? "" : ": not faster, everything stays as it was");
  absl::PrintF("%d threads an op, %d kernels chosen, %d passes left out; in %s, for --tuning=%s\n",
               report.tuning.threads, report.tuning.kernels.size(), report.tuning.disabled_passes.size(), output,
               output);
}

// Returns the powers of two below `most`.
std::vector<int> ThreadsToTry(int most) {
  std::vector<int> threads;
  for (int n = 1; n < most; n *= 2) threads.push_back(n);
  return threads;
}

}  // namespace

absl::StatusOr<int> RunTune(const Arguments& arguments) {
  CompileFlags compile_flags;
  MemoryFlags memory_flags;
  RunFlags run_flags;
  int64_t seed = 0;
  double seconds = 1;
  bool forward = false, json = false;
  std::string output;
  Flags flags(
      "snug tune NET [flags]",
      "Measures on this machine how steps of a network are fastest: threads per op (on the processor, unless "
      "--threads\n"
      "is given), passes that are better left out, and for each node the kernels that its op offers: on a GPU the\n"
      "algorithms of cuBLASLt and cuDNN, and our own. What is faster goes into a file for --tuning, which every "
      "command\n"
      "takes; whole steps are measured before and after, in turn.");
  flags.Add("output", &output, "file to write; *.pbtxt is text; default: <network>.tuning.pbtxt");
  flags.Add("forward", &forward, "the forward pass only; default: training steps");
  compile_flags.AddKeepDerivedTo(flags);
  compile_flags.AddOnlyTo(flags);
  flags.Add("seconds", &seconds, "that each measurement goes on for, at least; default 1");
  flags.Add("seed", &seed, "of parameters, data and dropout; default 0");
  compile_flags.AddTo(flags);
  memory_flags.AddTo(flags);
  run_flags.AddTo(flags);
  AddJsonFlag(flags, &json);
  SNUG_ASSIGN_OR_RETURN(const std::string file, flags.ParseOne(arguments, "a model file"));
  SNUG_RETURN_IF_ERROR(compile_flags.CheckForwardOnly(forward));
  if (!compile_flags.tuning.empty()) {
    return absl::InvalidArgumentError("--tuning: expected none, as this command makes one; --output names the file");
  }
  if (compile_flags.plain_kernels) {
    return absl::InvalidArgumentError("--plain-kernels: expected fast ones, as those are chosen among");
  }
  if (seconds < 0) return absl::InvalidArgumentError(absl::StrCat("--seconds: expected seconds, found ", seconds));
  SNUG_ASSIGN_OR_RETURN(const LoadedNetwork loaded, LoadNetworkFile(file));
  TuneOptions options{.seconds = seconds};
  SNUG_ASSIGN_OR_RETURN(options.compile, compile_flags.Options(memory_flags.streams.count));
  SNUG_ASSIGN_OR_RETURN(options.compile.memory, memory_flags.Options({&loaded}));
  SNUG_ASSIGN_OR_RETURN(options.session, run_flags.Options(compile_flags.threads > 0, &options.compile));
  options.compile.training = !forward;
  options.session.seed = static_cast<uint64_t>(seed);
  const bool on_cpu = options.compile.device.kind == Device::Kind::kCpu;
  if (compile_flags.threads == 0 && on_cpu) options.threads = ThreadsToTry(options.compile.threads);
  options.progress = [json](const std::string& line) { std::fprintf(json ? stderr : stdout, "%s\n", line.c_str()); };
  if (output.empty()) output = absl::StrCat(FileNameOf(loaded.network.name()), ".tuning.pbtxt");
  SNUG_RETURN_IF_ERROR(CheckNotRead("output", output, {file, memory_flags.plan_file}));
  SNUG_RETURN_IF_ERROR(OutputFile::Create(output).status());  // fails now rather than after all the measuring
  SNUG_ASSIGN_OR_RETURN(const TuneReport report,
                        Tune(loaded.network, loaded.source_map, OpRegistry::Builtin(), options));
  SNUG_RETURN_IF_ERROR(SaveTuning(report.tuning, output));
  if (json) {
    PrintJson(report, output);
  } else {
    PrintTable(report, output);
  }
  return 0;
}

}  // namespace snug::core::cli
