// Judges the class scores of a network over the batches of an evaluation: what was taken for what, how well each class
// is ranked, and which samples were predicted worst.
//
//   SNUG_ASSIGN_OR_RETURN(const auto judge, Judge::Create(scores, evaluator->first_program(), options));
//   evaluator->Run(0, {.before_run = [&](Program& p) { return judge->BeforeRun(p); },
//                      .after_run = [&](Program& p, int64_t) { return judge->AfterRun(p); }});
//   const Judgement judgement = judge->Finish();
#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/run/session/program.h"
#include "engine/train/judgement/class_scores.h"
#include "engine/train/judgement/confusion.h"
#include "engine/train/judgement/ranking.h"

namespace snug::core {

struct Judgement {
  // A sample by the mean of -log p(label) over its rows that count.
  struct Sample {
    int64_t index = 0;  // in the sequence of the evaluation
    double cross_entropy = 0;
    // Of its first row that counts, which is the only one where each sample has one row.
    int64_t label = 0, predicted = 0;  // Confusion::kNone: its scores are no numbers
    double label_probability = 0, predicted_probability = 0;
  };

  std::string scores, labels;  // the values that were judged
  bool binary = false;         // there are two classes, the second of which is what is looked for
  int64_t rows_per_sample = 1;
  Confusion confusion{0};
  int64_t ignored = 0;       // rows whose label leaves them out
  double cross_entropy = 0;  // mean of -log p(label) over the rows; NaN where that is not asked for
  // Of more than so many classes, how many of the rows have their label among the so many highest scores, as the op
  // top_k_accuracy counts it.
  static constexpr int64_t kTop = 5;
  std::optional<int64_t> in_top;
  std::vector<double> areas;    // under each class's ROC curve; NaN: a class has all rows, or none
  double mean_area = 0;         // of those that are numbers; NaN: none is
  std::string areas_missing;    // why there are no areas; empty: there are
  std::vector<RocPoint> curve;  // of the second of two classes; thresholds are probabilities, the first is infinite
  std::vector<Sample> worst;    // the worst first

  double top_accuracy() const;  // NaN where it is not counted, or there are no rows
};

class Judge {
 public:
  static constexpr int64_t kMostClasses = 10'000;
  // Scores are kept for ranking up to this number, in 8 bytes each.
  static constexpr int64_t kMostRanked = int64_t{1} << 25;

  struct Options {
    bool by_class = true;  // without it, only the cross-entropy is taken: of any number of classes
    bool areas = true;     // without it, classes are not ranked, so nothing is kept of the rows
    // Without it, there is no cross-entropy, of rows or of samples, and no logarithm of each score.
    bool likelihood = true;
    int64_t worst = 0;  // how many samples are listed
    int64_t most_ranked = kMostRanked;
  };
  // `program` is any of those that will run; they may differ only in the batch. Fails with InvalidArgument if scores
  // and labels do not go together, and with FailedPrecondition if they do, but cannot be judged by class.
  static absl::StatusOr<std::unique_ptr<Judge>> Create(const ClassScores& scores, const Program& program,
                                                       const Options& options);

  // Keeps the labels that are fed. Must come before the run, which may write over its inputs.
  absl::Status BeforeRun(Program& program);
  // Fails with InvalidArgument at a label that is no class.
  absl::Status AfterRun(Program& program);
  Judgement Finish();

  int64_t classes() const { return rows_.classes(); }
  int64_t rows_per_sample() const { return rows_.rows_per_sample(); }

 private:
  Judge(const ClassScores& scores, const Options& options, const ScoreReader& rows, bool real_labels)
      : scores_(scores), options_(options), rows_(rows), real_labels_(real_labels) {
    result_.confusion = Confusion(options.by_class ? rows.classes() : 0);
  }
  absl::StatusOr<int64_t> LabelOf(double number, int64_t row) const;
  void Rank(const std::vector<double>& logits, int64_t label, int64_t sample);
  void GiveUpAreas(std::string why);
  void AddWorst(const Judgement::Sample& sample);

  const ClassScores scores_;
  const Options options_;
  const ScoreReader rows_;
  const bool real_labels_;  // labels are real numbers, 0 or 1
  Judgement result_;
  std::vector<double> labels_;  // of the batch
  std::vector<double> logits_;  // of the row
  int64_t samples_ = 0;
  int64_t counted_ = 0;       // rows
  double cross_entropy_ = 0;  // summed over them
  // For ranking: the label of each row, and its score for each class.
  std::vector<int32_t> ranked_labels_;
  std::vector<std::vector<double>> ranked_;
};

}  // namespace snug::core
