// `snug train NET` leads from a model file to trained parameters, a curve and checkpoints.
#include <absl/strings/str_cat.h>
#include <absl/strings/str_format.h>
#include <absl/strings/str_join.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <memory>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "engine/base/machine.h"
#include "engine/base/status.h"
#include "engine/base/text/byte_size.h"
#include "engine/base/text/json.h"
#include "engine/base/text/printable.h"
#include "engine/compile/unread_parameters.h"
#include "engine/train/checkpoint/file_system.h"
#include "engine/train/checkpoint/resume.h"
#include "engine/train/checkpoint/session_state.h"
#include "engine/train/class_heads.h"
#include "engine/train/metrics.h"
#include "engine/train/metrics_file.h"
#include "engine/train/run_folder.h"
#include "engine/train/tensorboard/event_log.h"
#include "engine/train/trainer.h"
#include "engine/train/training_options.h"
#include "proto/text_loader.h"
#include "tools/cli/checkpoints.h"
#include "tools/cli/command.h"
#include "tools/cli/flags/flags.h"
#include "tools/cli/flags/output_flag.h"
#include "tools/cli/flags/training_flags.h"
#include "tools/cli/judge/confusion_summary.h"
#include "tools/cli/process.h"
#include "tools/cli/runs/classes_of_data.h"
#include "tools/cli/runs/kept_options.h"
#include "tools/cli/runs/run_notes.h"
#include "tools/cli/step_observer.h"
#include "tools/cli/train_log.h"

namespace snug::core::cli {
namespace {

constexpr int kStoppedEarly = 4;  // the exit code

struct TrainFlags {
  std::string file, output;
  std::optional<std::string> tensorboard;  // a folder; empty: in the output
  std::optional<bool> tensorboard_said;
  std::optional<bool> resume_said;  // what --resume says
  bool resume = false, json = false, upload_ahead = true, classes_of_data = false, gradients = false;
  std::vector<std::string> resume_with;
  std::set<std::string> may_change;  // the same, checked
  TrainingFlags training;
  ObserverFlags observer;
};

struct Run {
  double seconds = 0;
  bool finished = false;
};

void PrintMemory(const Trainer& trainer, std::FILE* out) {
  const Session& session = trainer.session();
  int64_t forward = 0, training = 0;
  for (size_t i = 0; i < session.programs(); ++i) {
    const Compiled& compiled = session.program(i).compiled();
    int64_t& most = compiled.training ? training : forward;
    most = std::max(most, compiled.executable.memory.step_bytes());
  }
  absl::FPrintF(out, "memory %s: variables %s, training %s",
                ByteSize(session.state_bytes() + std::max(forward, training)), ByteSize(session.state_bytes()),
                ByteSize(training));
  if (forward > 0) absl::FPrintF(out, " (forward only %s, in the same bytes)", ByteSize(forward));
  absl::FPrintF(out, "; batches read ahead %s", ByteSize(trainer.staging_bytes()));
  if (session.upload_bytes() > 0) {
    absl::FPrintF(out, "; beside it on the device %s for the next batch", ByteSize(session.upload_bytes()));
  }
  absl::FPrintF(out, "\n");
}

// What --tensorboard-gradients keeps, and of which tables it has none.
void PrintKeptGradients(const Compiled& compiled, bool update_as_made, std::FILE* out) {
  int64_t bytes = 0;
  const std::vector<tensorboard::KeptGradient> gradients = tensorboard::KeptGradients(compiled);
  for (const tensorboard::KeptGradient& gradient : gradients) bytes += gradient.bytes;
  absl::FPrintF(out, "of that for --tensorboard-gradients: %d gradients stay to the end of a step, up to %s\n",
                gradients.size(), ByteSize(bytes));
  if (update_as_made) absl::FPrintF(out, "--update-as-made does nothing: a gradient that stays is made as a whole\n");
  for (const TableGradient& table : compiled.tables) {
    if (!table.rows) continue;
    absl::FPrintF(out, "no histogram of the gradient of %s, which is never made: it is a list of rows\n", table.table);
  }
}

// What may help where steps wait for data.
std::string WhatReadsFaster(const proto::Data& data) {
  const int64_t processors = AvailableProcessors();
  if (data.readers() < processors) {
    return absl::StrCat(": --data-readers=", std::min(2 * data.readers(), processors), " may help");
  }
  return data.has_images() && !data.images().has_cache() ? ": --data-images-cache=FILE may help" : "";
}

void WriteMetrics(Json& json, absl::string_view key, const Metrics& metrics) {
  json.Key(key).Object();
  for (const auto& [name, value] : metrics) json.Key(name).Number(value);
  json.End();
}

void PrintJson(const Trainer& trainer, const TrainLog& log, const Run& run, const std::string& output,
               const Checkpoints& checkpoints, const StepObserver& observer) {
  const Session& session = trainer.session();
  Json json;
  json.Object().Key("network").String(session.compiled().graph.name).Key("batch").Number(trainer.batch());
  json.Key("micro_batches").Number(trainer.micro_batches());
  json.Key("steps").Number(trainer.step()).Key("finished").Bool(run.finished).Key("seconds").Number(run.seconds);
  json.Key("samples_per_second").Number(log.samples_per_second());
  json.Key("waited_share").Number(log.waited_share());
  WriteMetrics(json, "training", log.last_step());
  WriteMetrics(json, "evaluation", log.last_evaluation());
  json.Key("state_bytes").Number(session.state_bytes()).Key("step_bytes").Number(session.step_bytes());
  json.Key("staging_bytes").Number(trainer.staging_bytes()).Key("upload_bytes").Number(session.upload_bytes());
  json.Key("output").String(output);
  json.Key("checkpoint").String(checkpoints.path());
  if (!checkpoints.averaged_steps().empty()) {
    json.Key("average").Object().Key("checkpoint").String(checkpoints.average_path()).Key("steps").Array();
    for (const int64_t step : checkpoints.averaged_steps()) json.Number(step);
    json.End().End();
  }
  if (const Progress& progress = trainer.progress(); progress.keeps_best()) {
    json.Key("ended_early").Bool(progress.ended() && trainer.step() < trainer.steps());
    if (progress.best_value().has_value()) {
      json.Key("best")
          .Object()
          .Key("metric")
          .String(progress.best_metric())
          .Key("value")
          .Number(*progress.best_value());
      json.Key("step").Number(progress.best_step()).Key("checkpoint").String(checkpoints.best_path()).End();
    }
  }
  WriteKernels(session.compiled(), json);
  WriteFallbacks(session.fallbacks(), json);
  observer.WriteJson(json);
  json.End();
  std::puts(json.text().c_str());
}

// A line on the console has what the network itself measures, what the training goes by, and a perplexity; the files
// have all.
std::vector<std::string> UnsaidMetrics(const Trainer& trainer) {
  std::vector<std::string> unsaid;
  for (const KnownMetric& one : trainer.judge().metrics()) {
    const Progress& progress = trainer.progress();
    const bool said =
        one.name == "perplexity" || one.name == progress.best_metric() || one.name == progress.plateau_metric();
    if (!said) unsaid.push_back(one.name);
  }
  return unsaid;
}

absl::Status CheckMetricNames(const LoadedNetwork& loaded, const Trainer& trainer) {
  for (const std::string& metric : MetricNames(loaded.network, trainer.session().program(0))) {
    if (!MetricsFile::IsReserved(metric)) continue;
    int output = 0;
    while (output < loaded.network.output_size() && loaded.network.output(output) != metric) ++output;
    return At(loaded.source_map.OutputLoc(output),
              absl::InvalidArgumentError(absl::StrCat("output \"", metric, "\": every line of metrics.jsonl has a \"",
                                                      metric, "\" of its own: give this layer another name")));
  }
  return absl::OkStatus();
}

absl::StatusOr<int> Train(LoadedNetwork& loaded, const TrainingOptions& given, TrainFlags& f) {
  const proto::Training& training = given.training;
  const OpRegistry& registry = OpRegistry::Builtin();
  std::FILE* const out = f.json ? stderr : stdout;
  const RunFolder output = f.output.empty() ? RunFolder::Of(loaded.network.name()) : RunFolder(f.output);
  const std::string directory =
      training.checkpoint().has_directory() ? training.checkpoint().directory() : output.checkpoints();
  std::vector<std::string> taken = FilesIn(training.data());
  taken.insert(taken.end(), {f.file, f.training.training_file, f.training.compile.tuning, f.training.memory.plan_file,
                             f.training.init_from, output.metrics(), output.record(), output.curve()});
  SNUG_RETURN_IF_ERROR(CheckNotRead("trace", f.observer.trace, taken));
  SNUG_ASSIGN_OR_RETURN(StepObserver observer, StepObserver::Create(f.observer));
  SNUG_RETURN_IF_ERROR(MetricsFile::CheckNobodyWrites(output.metrics()));
  Checkpoints checkpoints(directory, training, out);
  if (f.resume) SNUG_RETURN_IF_ERROR(checkpoints.Find(/*resume=*/true));
  SNUG_ASSIGN_OR_RETURN(TrainerOptions options, f.training.ForTrainer(given));
  options.upload_ahead = f.upload_ahead;
  options.goes_on = f.resume;
  options.judges_classes = true;
  options.compile.decay_rule = checkpoints.decay_rule();
  options.compile.parameter_gradients = f.gradients;
  SNUG_ASSIGN_OR_RETURN(TrainingData data,
                        OpenDataAndSetClasses(training, f.classes_of_data, f.resume ? &checkpoints.metadata() : nullptr,
                                              &loaded.network, out));
  const bool other_classes = data.learnt.contains(kHeadClassesKey);
  checkpoints.Keep(data.learnt, KeptOptions::Of(given, data, loaded.network), f.may_change);
  SNUG_ASSIGN_OR_RETURN(
      const std::unique_ptr<Trainer> trainer,
      Trainer::Create(loaded.network, loaded.source_map, registry, training, std::move(data), options));
  SNUG_RETURN_IF_ERROR(CheckMetricNames(loaded, *trainer));
  const Compiled& compiled = trainer->session().compiled();
  SayWhatVaries(compiled);
  std::fputs(InVainText(compiled).c_str(), stderr);
  std::fputs(UnreadParametersText(compiled).c_str(), stderr);
  if (!f.resume) SNUG_RETURN_IF_ERROR(f.training.Initialise(trainer->session(), out));
  checkpoint::PosixFileSystem files;
  SNUG_RETURN_IF_ERROR(files.MakeDirectory(output.path()));
  SNUG_RETURN_IF_ERROR(checkpoints.TakeDirectory());
  // Another training may have begun at the same time as this one, and be done by now.
  if (!f.resume) SNUG_RETURN_IF_ERROR(checkpoints.Find(/*resume=*/false));
  SNUG_RETURN_IF_ERROR(checkpoints.Begin(*trainer));
  absl::FPrintF(out, "%s: %d steps of %d samples, %d steps an epoch; %d threads an op, %s\n",
                Printable(compiled.graph.name), trainer->steps(), trainer->batch(), trainer->steps_per_epoch(),
                compiled.threads, Name(compiled.precision));
  if (trainer->micro_batches() > 1) {
    absl::FPrintF(out, "each step in %d micro-batches of %d samples\n", trainer->micro_batches(), compiled.batch);
  }
  if (training.schedule().warm_up() >= trainer->steps()) {
    absl::FPrintF(stderr,
                  "warning: training.schedule.warm_up: the learning rate rises for %d steps, and the training has %d\n",
                  training.schedule().warm_up(), trainer->steps());
  }
  for (const std::string& missing : trainer->judge().missing()) {
    absl::FPrintF(out, "evaluations have %s\n", Printable(missing));
  }
  PrintMemory(*trainer, out);
  if (f.gradients) PrintKeptGradients(compiled, options.compile.update_as_made, out);
  SNUG_ASSIGN_OR_RETURN(
      const std::unique_ptr<TrainLog> log,
      TrainLog::Open({.folder = output,
                      .title = compiled.graph.name,
                      .out = out,
                      .step = trainer->step(),
                      .changes = checkpoints.changes(),
                      .batch = trainer->batch(),
                      .steps_per_epoch = trainer->steps_per_epoch(),
                      .log_every = training.log_every(),
                      .memory_bytes = trainer->session().state_bytes() + trainer->session().step_bytes(),
                      .metrics = trainer->metrics(),
                      .unsaid = UnsaidMetrics(*trainer)}));
  runs::RunRecord record =
      DescribeRun(*trainer, given, f.training.run, f.training.compile, f.training.memory, f.training.init_from, output);
  record.changes = checkpoints.changes();
  if (other_classes) record.options.emplace_back("classes-of-data", "true");
  RunNotes notes(output, std::move(record), *trainer, options.compile.memory);
  std::unique_ptr<tensorboard::EventLog> events;
  CatchStopSignals();
  const int64_t began_at = trainer->step();
  const auto begin = std::chrono::steady_clock::now();
  const auto prepare = [&]() -> absl::Status {
    if (f.tensorboard.has_value()) {
      const std::string folder = f.tensorboard->empty() ? output.tensorboard() : *f.tensorboard;
      SNUG_ASSIGN_OR_RETURN(events, tensorboard::EventLog::Open(folder, *trainer, loaded.network));
    }
    return observer.Attach(trainer->session(), registry, trainer->steps() - began_at);
  };
  if (const absl::Status prepared = prepare(); !prepared.ok()) {
    notes.Ended(prepared, false);
    return prepared;
  }
  const auto after_step = [&](const Trainer::StepReport& report) {
    observer.AddStep({.feed = report.feed_ns, .run = report.run_ns, .fetch = report.fetch_ns, .end = report.end_ns});
    SNUG_RETURN_IF_ERROR(log->Step(report));
    return events == nullptr ? absl::OkStatus() : events->Step(report);
  };
  const auto after_evaluation = [&](const Trainer::EvaluationReport& report) {
    if (report.verdict.best) SNUG_RETURN_IF_ERROR(checkpoints.SaveBest(report.step));
    SNUG_RETURN_IF_ERROR(log->Evaluation(report));
    if (!trainer->judge().metrics().empty() && !report.not_judged.empty()) {
      absl::FPrintF(stderr, "warning: step %d: the evaluation has no precision, recall, f1 and auc: %s\n", report.step,
                    Printable(report.not_judged));
    }
    if (const auto confusion = SummaryOf(*trainer, report); confusion.has_value()) notes.Evaluated(*confusion);
    if (report.verdict.rate_fell) {
      absl::FPrintF(out, "no better for some evaluations: the learning rate is %.4g of the schedule's from now on\n",
                    trainer->progress().rate_factor());
    }
    return events == nullptr ? absl::OkStatus() : events->Evaluation(report);
  };
  const absl::Status status = trainer->Run({.step = after_step,
                                            .evaluation = after_evaluation,
                                            .checkpoint = [&](int64_t step) { return checkpoints.Save(step); },
                                            .stop = StopRequested});
  notes.Ended(status, trainer->finished(), StopReason());
  const absl::Status observed = observer.Finish();                  // also for a training that failed, because the
                                                                    // steps before it count
  if (const absl::Status drawn = log->WriteCurve(); !drawn.ok()) {  // no reason for the training to fail
    std::fprintf(stderr, "warning: %s\n", std::string(drawn.message()).c_str());
  }
  SNUG_RETURN_IF_ERROR(checkpoints.SayWhatIsKept(status));
  checkpoints.Tidy();
  if (trainer->finished()) SNUG_RETURN_IF_ERROR(checkpoints.SaveAverage());
  SNUG_RETURN_IF_ERROR(observed);
  const Run run{.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count(),
                .finished = trainer->finished()};
  if (!run.finished) {
    if (const std::string why = StopReason(); !why.empty()) {
      std::fprintf(stderr, "stopped after a checkpoint: %s; --resume goes on\n", why.c_str());
    }
    LetGoOfLostOutput();
  }
  if (f.json) {
    PrintJson(*trainer, *log, run, output.path(), checkpoints, observer);
  } else {
    if (trainer->step() == began_at) {
      absl::PrintF("nothing was left to do; %s may ask for more\n",
                   trainer->progress().ended() ? "--best-patience" : "--steps or --epochs");
    }
    absl::PrintF("%s after %d steps, %.1f s, %.0f samples/s\n", run.finished ? "done" : "stopped", trainer->step(),
                 run.seconds, log->samples_per_second());
    if (log->waits()) {
      absl::PrintF("data       %.0f %% of the time in steps was waited for them%s\n", 100 * log->waited_share(),
                   WhatReadsFaster(training.data()));
    }
    if (const Progress& progress = trainer->progress(); progress.best_value().has_value()) {
      if (progress.ended()) {
        absl::PrintF("ended early: %d evaluations were no better than the best\n", training.best().patience());
      }
      absl::PrintF("best       %s: %s %.6g after step %d\n", checkpoints.best_path(), progress.best_metric(),
                   *progress.best_value(), progress.best_step());
    }
    if (const std::vector<int64_t>& steps = checkpoints.averaged_steps(); !steps.empty()) {
      absl::PrintF("average    %s: of the checkpoints after steps %s\n", checkpoints.average_path(),
                   absl::StrJoin(steps, ", "));
    }
    absl::PrintF("checkpoint %s\ncurve      %s\nmetrics    %s\n", checkpoints.path(), output.curve(), output.metrics());
    if (events != nullptr) absl::PrintF("events     %s\n", events->path());
    if (observer.profiler() != nullptr) absl::PrintF("\n%s", observer.Tables());
    if (!run.finished) absl::PrintF("the same command with --resume goes on\n");
  }
  return run.finished ? 0 : kStoppedEarly;
}

}  // namespace

absl::StatusOr<int> RunTrain(const Arguments& arguments) {
  TrainFlags f;
  Flags flags(
      "snug train NET [flags]",
      "Trains a network from its model file: checkpoints, metrics and a curve go to --output. Everything has a\n"
      "place in the model file too (`training { }`); what is given here comes first. Ctrl-C ends the training\n"
      "after the step, with a checkpoint (exit code 4), and so does a closed terminal, unless nohup is before it; the\n"
      "same command with --resume goes on, bit for bit.");
  flags.Add("output", &f.output, "directory for what the training leaves; default runs/<network>");
  f.training.AddTrainingFile(flags);
  flags.Add("resume", &f.resume_said, "go on from the newest checkpoint");
  flags.Add(
      "resume-with", &f.resume_with,
      absl::StrCat("go on, with what is named here as it is said now, and all else as it was: ", NamesToResumeWith()));
  f.training.AddInit(flags);
  AddClassesOfDataFlag(flags, "; the checkpoint keeps that for eval, predict and export", &f.classes_of_data);
  flags.Add("tensorboard", "", "also write event files for TensorBoard; =DIR: there; default: <output>/tensorboard",
            [&f](const std::string& value) -> absl::Status {
              f.tensorboard_said = value != "false";
              f.tensorboard.reset();
              if (value != "false") f.tensorboard = value == "true" ? "" : value;
              return absl::OkStatus();
            });
  flags.Add("tensorboard-gradients", &f.gradients,
            "histograms of gradients too; they stay to the end of each step for it, in more memory, which is said; "
            "implies --tensorboard");
  AddJsonFlag(flags, &f.json);
  f.training.AddSections(flags, [&] {
    f.observer.AddTo(flags);
    flags.Add(
        "upload-ahead", "on|off",
        "on a GPU: the next batch is uploaded while a step runs (default), into memory beside the plan, where "
        "--memory-limit and the device leave some; or as its step begins",
        [&f](const std::string& value) -> absl::Status {
          f.upload_ahead = value == "on";
          if (value == "on" || value == "off") return absl::OkStatus();
          return absl::InvalidArgumentError(absl::StrCat("--upload-ahead: expected on or off, found \"", value, "\""));
        });
  });
  SNUG_ASSIGN_OR_RETURN(f.file, flags.ParseOne(arguments, "a model file"));

  SNUG_ASSIGN_OR_RETURN(LoadedNetwork loaded, LoadNetworkFile(f.file));
  SNUG_ASSIGN_OR_RETURN(const TrainingOptions options, f.training.Settle(loaded));
  SNUG_ASSIGN_OR_RETURN(f.may_change, ParseResumeWith(f.resume_with));
  if (f.resume_said == false && !f.may_change.empty()) {
    return absl::InvalidArgumentError(
        "--resume-with goes on with a training, and --resume=false says that one begins: leave out one of them");
  }
  f.resume = f.resume_said.value_or(!f.may_change.empty());
  if (f.gradients && f.tensorboard_said == false) {
    return absl::InvalidArgumentError(
        "--tensorboard-gradients writes event files, and --tensorboard=false says that there are none: leave out one "
        "of "
        "them");
  }
  if (f.gradients && !f.tensorboard.has_value()) f.tensorboard = "";
  return Train(loaded, options, f);
}

}  // namespace snug::core::cli
