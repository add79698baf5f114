#include "engine/train/judgement/training_judge.h"

#include <absl/strings/str_cat.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "engine/base/status.h"
#include "proto/network.pb.h"

namespace snug::core {
namespace {

constexpr char kPrecision[] = "precision", kRecall[] = "recall", kF1[] = "f1", kArea[] = "auc",
               kTopAccuracy[] = "top5_accuracy", kPerplexity[] = "perplexity";

bool IsObjective(const proto::Network& network, const std::string& name) {
  return std::find(network.objective().begin(), network.objective().end(), name) != network.objective().end();
}

// The bound of the labels where the network says it; 0: it does not.
int64_t BoundOf(const proto::Network& network, const std::string& labels) {
  for (const proto::Input& input : network.input()) {
    if (input.name() == labels) return input.max_value();
  }
  return 0;
}

}  // namespace

absl::StatusOr<TrainingJudge> TrainingJudge::Create(const proto::Network& network) {
  TrainingJudge judge;
  SNUG_ASSIGN_OR_RETURN(std::optional<ClassScores> scores, FindClassScores(network, /*scores=*/"", /*labels=*/""));
  if (!scores.has_value()) return judge;
  if (!scores->language) {
    judge.class_scores_ = std::move(scores);
    return judge;
  }
  // The tokens of a language model are many, and nobody looks at which was taken for which. Its loss tells how probable
  // they are, unless that is another thing.
  judge.language_ = std::move(scores);
  if (IsObjective(network, judge.language_->likelihood)) return judge;
  judge.language_->likelihood.clear();
  const int64_t tokens = BoundOf(network, judge.language_->labels);  // 0: nothing says how many there are
  judge.reads_tokens_ = tokens > 0 && tokens <= Judge::kMostClasses;
  if (!judge.reads_tokens_) {
    judge.missing_.push_back(
        absl::StrCat("no perplexity, as no objective is the mean of -log p of a token, and the scores are read at each "
                     "evaluation only where the input of the labels says, by max_value, that there are at most ",
                     Judge::kMostClasses, " tokens; `snug eval` reads them"));
  }
  return judge;
}

std::vector<std::string> TrainingJudge::Fetched() const {
  const std::optional<ClassScores>& scores = reads_tokens_ ? language_ : class_scores_;
  if (!scores.has_value()) return {};
  std::vector<std::string> names = {scores->scores};
  if (!scores->labels_are_fed) names.push_back(scores->labels);
  return names;
}

void TrainingJudge::Add(const std::string& name, Better better, const std::vector<KnownMetric>& own) {
  const bool taken = std::any_of(own.begin(), own.end(), [&](const KnownMetric& one) { return one.name == name; });
  if (!taken) metrics_.push_back({name, better});
}

void TrainingJudge::Plan(const Program& program, int64_t samples, const std::vector<KnownMetric>& own) {
  if (language_.has_value()) {
    if (reads_tokens_) {
      const absl::Status possible = Judge::Create(*language_, program, {.by_class = false, .areas = false}).status();
      if (!possible.ok()) missing_.push_back(absl::StrCat("no perplexity: ", possible.message()));
      reads_tokens_ = possible.ok();
    }
    if (reads_tokens_ || !language_->likelihood.empty()) Add(kPerplexity, Better::kLess, own);
    return;
  }
  if (!class_scores_.has_value()) return;
  const absl::StatusOr<std::unique_ptr<Judge>> judge =
      Judge::Create(*class_scores_, program, {.areas = false, .likelihood = false});
  if (!judge.ok()) {
    not_judged_ = std::string(judge.status().message());
    missing_.push_back(absl::StrCat("no precision, recall, f1 and auc: ", not_judged_));
    return;
  }
  const int64_t rows = samples * (*judge)->rows_per_sample(), classes = (*judge)->classes();
  ranks_ = rows <= kMostRanked / classes;
  for (const char* name : {kPrecision, kRecall, kF1}) Add(name, Better::kMore, own);
  if (ranks_) {
    Add(kArea, Better::kMore, own);
  } else {
    missing_.push_back(absl::StrCat("no auc: ", rows, " rows of ", classes, " classes have more scores than the ",
                                    kMostRanked, " that are ranked at each evaluation; `snug eval` ranks more"));
  }
  if (classes > Judgement::kTop) Add(kTopAccuracy, Better::kMore, own);
}

absl::StatusOr<Evaluator::Report> TrainingJudge::Run(Evaluator& evaluator, int64_t batches,
                                                     Evaluated* evaluated) const {
  evaluated->not_judged = not_judged_;
  std::unique_ptr<Judge> judge;
  const bool by_class = class_scores_.has_value() && not_judged_.empty();
  if (by_class || reads_tokens_) {
    SNUG_ASSIGN_OR_RETURN(judge, Judge::Create(by_class ? *class_scores_ : *language_, evaluator.first_program(),
                                               {.by_class = by_class, .areas = ranks_, .likelihood = !by_class}));
  }
  // Classes that cannot be judged are no reason to end a training.
  const auto judged = [&](const absl::Status& status) {
    if (status.ok()) return absl::OkStatus();
    judge = nullptr;
    if (by_class) evaluated->not_judged = std::string(status.message());
    return absl::OkStatus();
  };
  SNUG_ASSIGN_OR_RETURN(
      Evaluator::Report report,
      evaluator.Run(
          batches,
          {.before_run = [&](Program& p) { return judge ? judged(judge->BeforeRun(p)) : absl::OkStatus(); },
           .after_run = [&](Program& p, int64_t) { return judge ? judged(judge->AfterRun(p)) : absl::OkStatus(); }}));
  std::optional<Judgement> judgement;
  if (judge != nullptr) judgement = judge->Finish();
  std::optional<double> cross_entropy;  // of a token
  if (language_.has_value()) {
    if (judgement.has_value()) cross_entropy = judgement->cross_entropy;
    for (const auto& [name, value] : report.objectives) {
      if (name == language_->likelihood) cross_entropy = value;
    }
    judgement.reset();
  }
  const Confusion::Means means = judgement.has_value() ? judgement->confusion.means() : Confusion::Means();
  for (const KnownMetric& metric : metrics_) {
    const auto add = [&](absl::string_view name, double value) {
      if (metric.name == name) evaluated->metrics.emplace_back(metric.name, value);
    };
    if (cross_entropy.has_value()) add(kPerplexity, std::exp(*cross_entropy));
    if (!judgement.has_value()) continue;
    add(kPrecision, means.precision);
    add(kRecall, means.recall);
    add(kF1, means.f1);
    add(kArea, judgement->mean_area);
    add(kTopAccuracy, judgement->top_accuracy());
  }
  evaluated->judgement = std::move(judgement);
  return report;
}

}  // namespace snug::core
