#include "engine/train/judgement/judge.h"

#include <absl/strings/str_cat.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "engine/base/status.h"

namespace snug::core {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

absl::StatusOr<ValueType> TypeOf(const ClassScores& scores, const std::string& name, bool fed, const Program& program) {
  const Executable& executable = program.compiled().executable;
  for (const Endpoint& endpoint : fed ? executable.inputs : executable.outputs) {
    if (endpoint.name == name) return endpoint.type;
  }
  return absl::InvalidArgumentError(absl::StrCat("the network does nothing with \"", name,
                                                 "\", so there are no labels to judge \"", scores.scores, "\" by"));
}

// NaN is worst of all.
bool Worse(const Judgement::Sample& a, const Judgement::Sample& b) {
  const bool a_nan = std::isnan(a.cross_entropy), b_nan = std::isnan(b.cross_entropy);
  if (a_nan != b_nan) return a_nan;
  if (!a_nan && a.cross_entropy != b.cross_entropy) return a.cross_entropy > b.cross_entropy;
  return a.index < b.index;
}

bool IsInTop(const std::vector<double>& logits, int64_t label) {
  const double its = logits[static_cast<size_t>(label)];
  int64_t above = 0;
  for (size_t c = 0; c < logits.size(); ++c) {
    above += !(logits[c] <= its) || (static_cast<int64_t>(c) < label && logits[c] == its) ? 1 : 0;
  }
  return above < Judgement::kTop;
}

}  // namespace

double Judgement::top_accuracy() const {
  if (!in_top.has_value()) return kNan;
  return static_cast<double>(*in_top) / static_cast<double>(confusion.rows());
}

absl::StatusOr<std::unique_ptr<Judge>> Judge::Create(const ClassScores& scores, const Program& program,
                                                     const Options& options) {
  const int64_t batch = program.compiled().batch;
  SNUG_ASSIGN_OR_RETURN(const ValueType type, TypeOf(scores, scores.scores, /*fed=*/false, program));
  SNUG_ASSIGN_OR_RETURN(const ValueType labels, TypeOf(scores, scores.labels, scores.labels_are_fed, program));
  SNUG_ASSIGN_OR_RETURN(const ScoreReader rows, ScoreReader::Create(scores, type, batch));
  const bool real_labels = IsFloating(labels.dtype);
  if (real_labels && !rows.binary() && labels.shape == type.shape) {
    return absl::FailedPreconditionError(
        absl::StrCat("the labels \"", scores.labels, "\" are a probability for each class, not a class"));
  }
  if (labels.num_elements() != batch * rows.rows_per_sample() || (real_labels && !rows.binary())) {
    return absl::InvalidArgumentError(absl::StrCat(
        "scores \"", scores.scores, "\" ", type.ToString(), ": expected a ", rows.binary() ? "0 or 1" : "class",
        " for each row of them as the labels, found \"", scores.labels, "\" ", labels.ToString()));
  }
  if (options.by_class && rows.classes() > kMostClasses) {
    return absl::FailedPreconditionError(absl::StrCat(
        rows.classes(), " classes are too many to be told apart one by one, which is done for up to ", kMostClasses));
  }
  std::unique_ptr<Judge> judge(new Judge(scores, options, rows, real_labels));
  judge->result_.scores = scores.scores;
  judge->result_.labels = scores.labels;
  judge->result_.binary = rows.classes() == 2;
  judge->result_.rows_per_sample = rows.rows_per_sample();
  if (options.by_class) judge->ranked_.resize(static_cast<size_t>(rows.classes()));
  if (options.by_class && rows.classes() > Judgement::kTop) judge->result_.in_top = 0;
  return judge;
}

absl::Status Judge::BeforeRun(Program& program) {
  if (!scores_.labels_are_fed) return absl::OkStatus();
  SNUG_ASSIGN_OR_RETURN(const ValueView view, program.Input(scores_.labels));
  labels_ = LoadNumbers(view);
  return absl::OkStatus();
}

absl::StatusOr<int64_t> Judge::LabelOf(double number, int64_t row) const {
  if (number >= 0 && number < static_cast<double>(rows_.classes()) && number == std::floor(number)) {
    return static_cast<int64_t>(number);
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "labels \"", scores_.labels, "\" of sample ", samples_ + row / rows_.rows_per_sample(), ": expected ",
      real_labels_ ? "0 or 1" : absl::StrCat("a class from 0 to ", rows_.classes() - 1), ", found ", number));
}

void Judge::GiveUpAreas(std::string why) {
  result_.areas_missing = std::move(why);
  ranked_.clear();
  ranked_labels_ = {};
}

void Judge::Rank(const std::vector<double>& logits, int64_t label, int64_t sample) {
  if (!options_.areas || !result_.areas_missing.empty()) return;
  const auto ranked = static_cast<int64_t>(ranked_labels_.size());
  if ((ranked + 1) * rows_.classes() > options_.most_ranked) {
    GiveUpAreas(absl::StrCat("the scores of more than ", ranked, " rows are too many to be ranked"));
    return;
  }
  const std::vector<double> odds = LogOdds(logits);
  if (std::any_of(odds.begin(), odds.end(), [](double number) { return std::isnan(number); })) {
    GiveUpAreas(absl::StrCat("sample ", sample, " has infinite scores, which give no probabilities to be ranked"));
    return;
  }
  ranked_labels_.push_back(static_cast<int32_t>(label));
  for (size_t c = 0; c < odds.size(); ++c) ranked_[c].push_back(odds[c]);
}

void Judge::AddWorst(const Judgement::Sample& sample) {
  std::vector<Judgement::Sample>& worst = result_.worst;
  if (static_cast<int64_t>(worst.size()) == options_.worst && (worst.empty() || !Worse(sample, worst.back()))) return;
  worst.insert(std::upper_bound(worst.begin(), worst.end(), sample, Worse), sample);
  if (static_cast<int64_t>(worst.size()) > options_.worst) worst.pop_back();
}

absl::Status Judge::AfterRun(Program& program) {
  if (!scores_.labels_are_fed) {
    SNUG_ASSIGN_OR_RETURN(const ValueView view, program.Output(scores_.labels));
    labels_ = LoadNumbers(view);
  }
  SNUG_ASSIGN_OR_RETURN(const ValueView view, program.Output(scores_.scores));
  const int64_t per_sample = rows_.rows_per_sample();
  for (int64_t sample = 0; sample < program.compiled().batch; ++sample) {
    Judgement::Sample judged{.index = samples_ + sample};
    int64_t counted = 0;
    for (int64_t row = sample * per_sample; row < (sample + 1) * per_sample; ++row) {
      const double number = labels_[static_cast<size_t>(row)];
      if (!real_labels_ && number == static_cast<double>(scores_.ignored)) {
        ++result_.ignored;
        continue;
      }
      SNUG_ASSIGN_OR_RETURN(const int64_t label, LabelOf(number, row));
      rows_.Read(view, row, &logits_);
      const Prediction prediction = options_.likelihood ? PredictionOf(logits_) : LargestOf(logits_);
      const double loss = prediction.cross_entropy(logits_[static_cast<size_t>(label)]);
      if (counted++ == 0) {
        judged.label = label;
        judged.predicted = prediction.best;
        judged.label_probability = prediction.probability(logits_[static_cast<size_t>(label)]);
        judged.predicted_probability = prediction.probability(prediction.largest);
      }
      judged.cross_entropy += loss;
      cross_entropy_ += loss;
      ++counted_;
      if (!options_.by_class) continue;
      result_.confusion.Add(label, prediction.best);
      if (result_.in_top.has_value()) *result_.in_top += IsInTop(logits_, label) ? 1 : 0;
      if (prediction.best == Confusion::kNone && result_.areas_missing.empty()) {
        GiveUpAreas(absl::StrCat("sample ", judged.index, " has scores that are no numbers"));
      }
      if (prediction.best != Confusion::kNone) Rank(logits_, label, judged.index);
    }
    if (counted == 0) continue;
    judged.cross_entropy /= static_cast<double>(counted);
    AddWorst(judged);
  }
  samples_ += program.compiled().batch;
  return absl::OkStatus();
}

Judgement Judge::Finish() {
  result_.cross_entropy = cross_entropy_ / static_cast<double>(counted_);
  result_.mean_area = kNan;
  if (!result_.areas_missing.empty() || !options_.by_class || !options_.areas) return std::move(result_);
  double sum = 0;
  int64_t there = 0;
  std::vector<RankedRow> rows(ranked_labels_.size());
  for (int64_t c = 0; c < rows_.classes(); ++c) {
    std::vector<double>& scores = ranked_[static_cast<size_t>(c)];
    for (size_t r = 0; r < rows.size(); ++r) rows[r] = {scores[r], ranked_labels_[r] == c};
    scores = {};
    result_.areas.push_back(AreaUnderRoc(rows));
    if (!std::isnan(result_.areas.back())) {
      sum += result_.areas.back();
      ++there;
    }
    if (!result_.binary || c != 1) continue;
    result_.curve = RocCurve(rows);
    // The first corner stays above every probability, also above 1, which a row may have.
    for (size_t i = 1; i < result_.curve.size(); ++i) {
      result_.curve[i].threshold = 1 / (1 + std::exp(-result_.curve[i].threshold));
    }
  }
  if (there > 0) result_.mean_area = sum / static_cast<double>(there);
  return std::move(result_);
}

}  // namespace snug::core
