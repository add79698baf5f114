// `snug eval NET --checkpoint=...` tells how good trained parameters are on data.
#include <absl/strings/str_cat.h>
#include <absl/strings/str_format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <memory>
#include <optional>
#include <utility>

#include "engine/base/status.h"
#include "engine/base/text/json.h"
#include "engine/base/text/output_file.h"
#include "engine/train/judgement/judge.h"
#include "proto/network.pb.h"
#include "tools/cli/command.h"
#include "tools/cli/flags/output_flag.h"
#include "tools/cli/inference.h"
#include "tools/cli/judge/judgement_text.h"
#include "tools/cli/judge/report.h"
#include "tools/picture/report_page.h"

namespace snug::core::cli {
namespace {

// Which scores are judged, and how; or why none are.
struct Judging {
  bool asked = false;  // the user wants classes judged, so that not to judge them is an error
  std::optional<ClassScores> scores;
  bool fetched = false;   // whether the scores are looked at
  bool by_class = false;  // and rows told apart by class, not only how probable their labels are
  std::string missing;    // why classes are not told apart

  absl::Status Miss(const absl::Status& why) {
    if (asked)
      return why.code() == absl::StatusCode::kFailedPrecondition ? absl::InvalidArgumentError(why.message()) : why;
    missing = std::string(why.message());
    fetched = by_class = false;
    return absl::OkStatus();
  }
};

struct EvalFlags {
  InferenceFlags inference;
  std::string scores, labels, report;
  bool json = false;
};

absl::StatusOr<Judging> ChooseJudging(const EvalFlags& flags, const proto::Network& network) {
  Judging judging{.asked = !flags.scores.empty() || !flags.labels.empty() || !flags.report.empty()};
  SNUG_ASSIGN_OR_RETURN(judging.scores, FindClassScores(network, flags.scores, flags.labels));
  if (!judging.scores.has_value()) {
    SNUG_RETURN_IF_ERROR(judging.Miss(absl::InvalidArgumentError(
        absl::StrCat(judging.asked ? "--report: there are no class scores: " : "", kNoClassScores))));
  } else if (judging.scores->language && !judging.asked) {
    // The loss tells how probable the labels are, unless it is another thing, or a part of a sum.
    judging.fetched = std::find(network.objective().begin(), network.objective().end(), judging.scores->likelihood) ==
                      network.objective().end();
    judging.missing = absl::StrCat(
        "those of a language model are not told apart unless --scores=", judging.scores->scores, " asks for it");
  } else if (!flags.inference.memory.plan_file.empty() && !judging.asked) {
    judging.missing = absl::StrCat("the program of --plan keeps no \"", judging.scores->scores,
                                   "\"; without --plan, or with --scores and a plan that has it, they are judged");
  } else {
    judging.fetched = judging.by_class = true;
  }
  return judging;
}

std::vector<std::string> FetchedFor(const Judging& judging) {
  if (!judging.fetched) return {};
  std::vector<std::string> fetch = {judging.scores->scores};
  if (!judging.scores->labels_are_fed) fetch.push_back(judging.scores->labels);
  return fetch;
}

struct Evaluated {
  Evaluator::Report report;
  std::optional<Judgement> judgement;
  ClassNames names;
  std::optional<double> cross_entropy;  // of a token, where the network is a language model
};

absl::StatusOr<Evaluated> EvaluateNetwork(const EvalFlags& flags, Judging& judging, Inference& inference) {
  Evaluated result;
  Evaluator& evaluator = *inference.evaluator;
  std::unique_ptr<Judge> judge;
  if (judging.fetched) {
    const Judge::Options options{.by_class = judging.by_class, .worst = flags.report.empty() ? 0 : kWorstSamples};
    absl::StatusOr<std::unique_ptr<Judge>> made = Judge::Create(*judging.scores, evaluator.first_program(), options);
    if (made.ok()) judge = *std::move(made);
    if (!made.ok()) SNUG_RETURN_IF_ERROR(judging.Miss(made.status()));
  }
  // Labels that cannot be judged are no reason to end an evaluation that only happens to judge them.
  const auto judged = [&](const absl::Status& status) {
    if (status.ok()) return status;
    judge = nullptr;
    return judging.Miss(status);
  };
  SNUG_ASSIGN_OR_RETURN(
      result.report,
      evaluator.Run(
          flags.inference.batches,
          {.before_run = [&](Program& p) { return judge ? judged(judge->BeforeRun(p)) : absl::OkStatus(); },
           .after_run = [&](Program& p, int64_t) { return judge ? judged(judge->AfterRun(p)) : absl::OkStatus(); }}));
  if (judge != nullptr) result.judgement = judge->Finish();
  if (judging.scores.has_value() && judging.scores->language) {
    if (result.judgement.has_value()) result.cross_entropy = result.judgement->cross_entropy;
    for (const auto& [name, value] : result.report.objectives) {
      if (name == judging.scores->likelihood && !result.cross_entropy.has_value()) result.cross_entropy = value;
    }
  }
  if (!judging.by_class) result.judgement.reset();
  if (judging.scores.has_value()) result.names = NamesOfClasses(evaluator, *judging.scores);
  return result;
}

void PrintEvaluationJson(const Judging& judging, const Inference& inference, const Evaluated& result) {
  Json out;
  out.Object().Key("checkpoint").String(inference.checkpoint).Key("samples").Number(result.report.samples);
  out.Key("seconds").Number(result.report.seconds).Key("metrics").Object();
  for (const auto& [name, value] : result.report.metrics) out.Key(name).Number(value);
  out.End();
  if (result.cross_entropy.has_value()) {
    out.Key("perplexity").Number(std::exp(*result.cross_entropy));
    out.Key("bits_per_token").Number(*result.cross_entropy / std::log(2.0));
  }
  if (result.judgement.has_value()) {
    WriteJudgement(*result.judgement, result.names, out.Key("classes"));
  } else {
    out.Key("classes_missing").String(judging.missing);
  }
  WriteKernels(inference.session->compiled(), out);
  WriteFallbacks(inference.session->fallbacks(), out);
  out.End();
  std::puts(out.text().c_str());
}

void PrintEvaluation(const Judging& judging, const Inference& inference, const Evaluated& result) {
  absl::PrintF("%s, %d samples, %.2f s\n", inference.checkpoint, result.report.samples, result.report.seconds);
  for (const auto& [name, value] : result.report.metrics) absl::PrintF("%-20s %.6g\n", name, value);
  if (result.cross_entropy.has_value()) {
    absl::PrintF("%-20s %.6g\n", "perplexity", std::exp(*result.cross_entropy));
    absl::PrintF("%-20s %.6g\n", "bits per token", *result.cross_entropy / std::log(2.0));
  }
  if (result.judgement.has_value()) {
    std::fputs(JudgementText(*result.judgement, result.names).c_str(), stdout);
  } else {
    absl::PrintF("classes are not judged: %s\n", judging.missing);
  }
}

absl::Status WriteReport(const EvalFlags& flags, const Inference& inference, const Evaluated& result,
                         OutputFile& page) {
  const ReportFacts facts{.network = inference.loaded.network.name(),
                          .checkpoint = inference.checkpoint,
                          .part = flags.inference.part,
                          .report = result.report,
                          .perplexity = result.cross_entropy.has_value() ? std::exp(*result.cross_entropy) : 0};
  SNUG_ASSIGN_OR_RETURN(const std::string document,
                        ReportDocument(facts, *result.judgement, result.names, inference.evaluator->dataset()));
  page.Write(ReportPage(document));
  return page.Finish();
}

}  // namespace

absl::StatusOr<int> RunEval(const Arguments& arguments) {
  EvalFlags f;
  Flags flags(
      "snug eval NET --checkpoint=PATH [flags]",
      "Runs trained parameters over data and prints the means of the loss and of each metric; where the network\n"
      "scores classes, what was taken for what, and precision, recall, F1 and AUC of each; of a language model,\n"
      "its perplexity. The data are those of the model file's `training { }`, unless --data says otherwise.");
  f.inference.AddTo(flags);
  flags.Add(
      "report", &f.report,
      "file for a page of its own: the confusion matrix, each class, the ROC curve of two classes, and the samples "
      "that were predicted worst");
  flags.Add("scores", &f.scores,
            "the layer whose output scores the classes; default: what the network's accuracy or loss reads");
  flags.Add("labels", &f.labels,
            "the input, or layer, that has the class of each sample; default: what is read with it");
  AddJsonFlag(flags, &f.json);
  SNUG_ASSIGN_OR_RETURN(const std::string file, flags.ParseOne(arguments, "a model file"));
  SNUG_ASSIGN_OR_RETURN(LoadedNetwork loaded, LoadNetworkFile(file));
  SNUG_ASSIGN_OR_RETURN(Judging judging, ChooseJudging(f, loaded.network));
  SNUG_ASSIGN_OR_RETURN(const std::unique_ptr<Inference> inference,
                        PrepareInference(std::move(loaded), f.inference, FetchedFor(judging)));
  // Where the page cannot be written, that is said before the evaluation, which may take long.
  std::unique_ptr<OutputFile> page;
  if (!f.report.empty()) {
    inference->read.push_back(file);
    SNUG_RETURN_IF_ERROR(CheckNotRead("report", f.report, inference->read));
    SNUG_ASSIGN_OR_RETURN(page, OutputFile::Create(f.report));
  }
  SNUG_ASSIGN_OR_RETURN(const Evaluated result, EvaluateNetwork(f, judging, *inference));
  if (page != nullptr) SNUG_RETURN_IF_ERROR(WriteReport(f, *inference, result, *page));
  if (f.json) {
    PrintEvaluationJson(judging, *inference, result);
  } else {
    PrintEvaluation(judging, *inference, result);
  }
  if (page != nullptr) std::fprintf(f.json ? stderr : stdout, "the page is in %s\n", f.report.c_str());
  return 0;
}

}  // namespace snug::core::cli
