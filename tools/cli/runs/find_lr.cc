// `snug find-lr NET` finds by a short training with which learning rate a long one may begin.
#include <absl/strings/str_cat.h>
#include <absl/strings/str_format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine/base/status.h"
#include "engine/base/text/json.h"
#include "engine/base/text/output_file.h"
#include "engine/train/checkpoint/file_system.h"
#include "engine/train/run_folder.h"
#include "engine/train/trainer.h"
#include "engine/train/training_options.h"
#include "proto/text_loader.h"
#include "proto/train.pb.h"
#include "tools/cli/command.h"
#include "tools/cli/flags/flags.h"
#include "tools/cli/flags/output_flag.h"
#include "tools/cli/flags/training_flags.h"
#include "tools/cli/process.h"
#include "tools/cli/runs/classes_of_data.h"
#include "tools/picture/curve.h"
#include "tools/runs/rate_range.h"

namespace snug::core::cli {
namespace {

using runs::RateRange;

struct FindRateFlags {
  RateRange::Options range;
  std::string svg;
  bool json = false, classes_of_data = false;
  TrainingFlags training;
};

absl::Status CheckRange(const RateRange::Options& range) {
  if (range.from <= 0) {
    return absl::InvalidArgumentError(absl::StrCat("--from: expected a learning rate above 0, found ", range.from));
  }
  if (range.to <= range.from) {
    return absl::InvalidArgumentError(
        absl::StrCat("--to: expected a learning rate above --from, ", range.from, ", found ", range.to));
  }
  if (range.smoothing * 4 > range.steps) {
    return absl::InvalidArgumentError(absl::StrCat("--smoothing: expected at most a quarter of the --steps, ",
                                                   range.steps / 4, ", found ", range.smoothing));
  }
  if (range.stop_at <= 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("--stop-at: expected more than once the least loss, 1, found ", range.stop_at));
  }
  return absl::OkStatus();
}

// Of a training's options, only what makes a step counts: rates are the test's own, and nothing is evaluated or kept.
proto::Training ForTheSweep(proto::Training training, int64_t steps) {
  training.clear_epochs();
  training.set_steps(steps);
  training.clear_schedule();
  training.clear_best();
  training.clear_checkpoint();
  training.clear_evaluate_every();
  training.clear_evaluate_batches();
  return training;
}

absl::StatusOr<std::unique_ptr<Trainer>> NewTrainer(LoadedNetwork& loaded, const TrainingOptions& given,
                                                    const FindRateFlags& f, std::FILE* out) {
  const proto::Training training = ForTheSweep(given.training, f.range.steps);
  SNUG_ASSIGN_OR_RETURN(const TrainerOptions options, f.training.ForTrainer(given));
  SNUG_ASSIGN_OR_RETURN(TrainingData data,
                        OpenDataAndSetClasses(training, f.classes_of_data, nullptr, &loaded.network, out));
  data.evaluation.reset();
  SNUG_ASSIGN_OR_RETURN(
      std::unique_ptr<Trainer> trainer,
      Trainer::Create(loaded.network, loaded.source_map, OpRegistry::Builtin(), training, std::move(data), options));
  SayWhatVaries(trainer->session().compiled());
  SNUG_RETURN_IF_ERROR(f.training.Initialise(trainer->session(), out));
  return trainer;
}

absl::Status Sweep(Trainer& trainer, RateRange* range, std::FILE* out) {
  const int64_t every = std::max<int64_t>(1, trainer.steps() / 20);
  const auto after_step = [&](const Trainer::StepReport& report) {
    const double loss = report.metrics[0].second;
    range->Add(loss);
    if (report.step % every == 0 || range->diverged()) {
      absl::FPrintF(out, "step %d/%d  learning rate %-9.3g loss %.5g\n", report.step, report.steps, report.rate, loss);
      std::fflush(out);
    }
    return absl::OkStatus();
  };
  SNUG_RETURN_IF_ERROR(trainer.Run({.step = after_step,
                                    .evaluation = {},
                                    .checkpoint = {},
                                    .stop = [&] { return range->diverged() || StopRequested(); },
                                    .rate = [&](int64_t step) { return range->RateOf(step); },
                                    .not_finite =
                                        [&] {
                                          range->Add(HUGE_VAL);
                                          absl::FPrintF(out, "step %d/%d  the loss is not finite\n", trainer.step() + 1,
                                                        trainer.steps());
                                        }}));
  if (range->diverged() || trainer.finished()) return absl::OkStatus();
  return absl::AbortedError(absl::StrCat("stopped after ", trainer.step(), " of ", trainer.steps(),
                                         " steps: nothing can be suggested before the end"));
}

absl::Status Draw(const std::string& path, const std::string& network, const RateRange& range,
                  const absl::StatusOr<RateRange::Suggestion>& suggestion) {
  const std::vector<double> smoothed = range.Smoothed();
  Series single{.name = "", .points = {}, .faint = true}, smooth{.name = "smoothed", .points = {}};
  // A loss that explodes would press all else to a line.
  const double most = smoothed.empty() ? 0 : *std::max_element(smoothed.begin(), smoothed.end());
  for (size_t i = 0; i < smoothed.size(); ++i) {
    const double rate = range.RateOf(static_cast<int64_t>(i));
    single.points.emplace_back(rate, std::min(range.losses()[i], most));
    smooth.points.emplace_back(rate, smoothed[i]);
  }
  CurveAxis axis{.name = "learning rate", .logarithmic = true, .marks = {}};
  if (suggestion.ok()) axis.marks.emplace_back(suggestion->rate, absl::StrFormat("%.2g", suggestion->rate));
  const std::string svg = CurveSvg(absl::StrCat(network, ": the loss of a step, by its learning rate"),
                                   {{.title = "loss", .series = {single, smooth}}}, axis);
  SNUG_ASSIGN_OR_RETURN(const std::unique_ptr<OutputFile> file, OutputFile::Create(path));
  file->Write(svg);
  return file->Finish();
}

void PrintJson(const RateRange& range, const RateRange::Suggestion& found, const std::string& network, int64_t batch,
               const std::string& svg) {
  Json json;
  json.Object().Key("network").String(network).Key("batch").Number(batch);
  json.Key("suggestion").Number(found.rate).Key("reason").String(found.reason);
  json.Key("steepest").Number(found.steepest).Key("least").Number(found.least);
  json.Key("least_loss").Number(found.least_loss).Key("first_loss").Number(found.first_loss);
  json.Key("diverged").Bool(range.diverged()).Key("still_falls").Bool(found.still_falls);
  json.Key("curve").String(svg).Key("points").Array();
  const std::vector<double> smoothed = range.Smoothed();
  for (size_t i = 0; i < smoothed.size(); ++i) {
    json.Array().Number(range.RateOf(static_cast<int64_t>(i))).Number(range.losses()[i]).Number(smoothed[i]).End();
  }
  json.End().End();
  std::puts(json.text().c_str());
}

absl::StatusOr<int> FindRate(LoadedNetwork& loaded, const TrainingOptions& given, const FindRateFlags& f) {
  std::FILE* const out = f.json ? stderr : stdout;
  SNUG_ASSIGN_OR_RETURN(const std::unique_ptr<Trainer> trainer, NewTrainer(loaded, given, f, out));
  const std::string& network = trainer->session().compiled().graph.name;
  std::string svg = f.svg;
  if (svg.empty()) {
    const RunFolder folder = RunFolder::Of(network);
    SNUG_RETURN_IF_ERROR(checkpoint::PosixFileSystem().MakeDirectory(folder.path()));
    svg = folder.find_lr();
  }
  // What cannot be written is known before the steps, not after them.
  SNUG_RETURN_IF_ERROR(OutputFile::Create(svg).status());
  CatchStopSignals();
  absl::FPrintF(out, "%s: at most %d steps of %d samples, learning rate from %g to %g\n", network, trainer->steps(),
                trainer->batch(), f.range.from, f.range.to);
  std::fflush(out);
  RateRange range(f.range);
  SNUG_RETURN_IF_ERROR(Sweep(*trainer, &range, out));
  const absl::StatusOr<RateRange::Suggestion> found = range.Suggest();
  if (range.losses().empty()) return Annotate(found.status(), "no suggestion");  // and nothing to draw
  SNUG_RETURN_IF_ERROR(Draw(svg, network, range, found));
  if (!found.ok()) return Annotate(found.status(), absl::StrCat("no suggestion (the curve is in ", svg, ")"));
  if (f.json) {
    PrintJson(range, *found, network, trainer->batch(), svg);
    return 0;
  }
  absl::PrintF("\nsuggested  --learning-rate=%g\nbecause    %s\ncurve      %s\n", found->rate, found->reason, svg);
  if (found->still_falls) {
    absl::PrintF("the loss still falls at the end: a larger --to than %g may find a larger learning rate\n",
                 f.range.to);
  }
  absl::PrintF("the parameters of this test are not kept\n");
  return 0;
}

}  // namespace

absl::StatusOr<int> RunFindLr(const Arguments& arguments) {
  FindRateFlags f;
  Flags flags(
      "snug find-lr NET [flags]",
      "Finds a learning rate to begin a training with. A short training, whose parameters are not kept, raises\n"
      "it from step to step until the loss diverges; where the loss falls fastest on the way is suggested. It\n"
      "takes the options of `snug train` that say what a step does: data, batch, optimizer, precision.");
  constexpr int64_t kFewestSteps = 20, kMostSteps = 10000;
  flags.Add("from", &f.range.from, "the learning rate of the first step; default 1e-6");
  flags.Add("to", &f.range.to, "that of the last; default 10");
  flags.Add("steps", &f.range.steps, "how many there are between; default 200", kFewestSteps, kMostSteps);
  flags.Add("smoothing", &f.range.smoothing, "steps over which the loss is averaged; default 0: a twentieth of them", 0,
            kMostSteps);
  flags.Add("stop-at", &f.range.stop_at,
            "the loss has diverged, and the test ends, where it is so many times its least; default 4");
  flags.Add("svg", &f.svg, "file for the curve; default runs/<network>/find_lr.svg");
  f.training.AddTrainingFile(flags);
  f.training.AddInit(flags);
  AddClassesOfDataFlag(flags, "", &f.classes_of_data);
  AddJsonFlag(flags, &f.json);
  f.training.AddSections(
      flags, [] {}, {"epochs", "evaluate-every", "evaluate-batches", "log-every", "schedule", "checkpoint", "best"},
      {"learning-rate", "average"});
  SNUG_ASSIGN_OR_RETURN(const std::string file, flags.ParseOne(arguments, "a model file"));
  SNUG_RETURN_IF_ERROR(CheckRange(f.range));

  SNUG_ASSIGN_OR_RETURN(LoadedNetwork loaded, LoadNetworkFile(file));
  SNUG_ASSIGN_OR_RETURN(const TrainingOptions options, f.training.Settle(loaded));
  std::vector<std::string> read = FilesIn(options.training.data());
  read.insert(read.end(), {file, f.training.training_file, f.training.compile.tuning, f.training.init_from});
  SNUG_RETURN_IF_ERROR(CheckNotRead("svg", f.svg, read));
  return FindRate(loaded, options, f);
}

}  // namespace snug::core::cli
