// Judges the evaluations of a training, beside the metrics of its network: what was taken for what, and from it
// precision, recall, F1, the area under the ROC curve and, of more than five classes, how many labels are among the
// five highest scores; of a language model its perplexity. As an evaluation comes often, what it costs is bounded.
#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/train/evaluator.h"
#include "engine/train/judgement/judge.h"
#include "engine/train/metric_direction.h"
#include "engine/train/metrics.h"

namespace snug::core {

class TrainingJudge {
 public:
  // Scores are ranked for the area up to this number, of all rows and classes: about a tenth of a second of a core in
  // each evaluation, and 8 bytes of memory each.
  static constexpr int64_t kMostRanked = int64_t{1} << 20;

  // Judges nothing.
  TrainingJudge() = default;
  static absl::StatusOr<TrainingJudge> Create(const proto::Network& network);

  // The values that the programs of evaluations must fetch.
  std::vector<std::string> Fetched() const;

  // Finds out what can be judged: `program` is one of these, of which an evaluation runs `samples`. `own` are the
  // metrics of the network itself, whose names come first.
  void Plan(const Program& program, int64_t samples, const std::vector<KnownMetric>& own);

  // What evaluations add to the network's metrics.
  const std::vector<KnownMetric>& metrics() const { return metrics_; }
  // Why there are no others, where the network scores classes: a sentence for each. Empty: nothing is missing.
  const std::vector<std::string>& missing() const { return missing_; }
  // The scores whose classes are told apart, if any are.
  const std::optional<ClassScores>& class_scores() const { return class_scores_; }

  struct Evaluated {
    Metrics metrics;                     // those of metrics(); none where the evaluation could not be judged
    std::optional<Judgement> judgement;  // what was taken for what, where classes are told apart
    std::string not_judged;              // why they are not, though the network scores classes
  };
  // Runs an evaluation of at most so many batches and judges it. That classes cannot be judged is no error.
  absl::StatusOr<Evaluator::Report> Run(Evaluator& evaluator, int64_t batches, Evaluated* evaluated) const;

 private:
  void Add(const std::string& name, Better better, const std::vector<KnownMetric>& own);

  std::optional<ClassScores> class_scores_, language_;
  bool reads_tokens_ = false;  // a language model's scores are read, as no loss tells its perplexity
  bool ranks_ = false;
  std::string not_judged_;
  std::vector<KnownMetric> metrics_;
  std::vector<std::string> missing_;
};

}  // namespace snug::core
