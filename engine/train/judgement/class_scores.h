// Which value of a network scores the classes, and what its rows of numbers mean.
#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/run/session/value_view.h"

namespace snug::proto {
class Layer;
class Network;
}  // namespace snug::proto

namespace snug::core {

struct ClassScores {
  std::string scores;          // a layer's output, which must be fetched
  std::string labels;          // an input, or a layer's output, which must be fetched
  bool labels_are_fed = true;  // whether it is an input
  bool probabilities = false;  // rather than logits, or logarithms of probabilities
  bool binary = false;         // each number alone says yes or no
  int64_t classes = 0;         // the first so many of the last axis; 0: all of it
  int64_t ignored = 0;         // rows with this label do not count
  std::string likelihood;      // a loss that is the mean of -log p(label), as it is; empty: there is none
  bool language = false;       // labels are tokens, as those of another input are: a language model
};

// Finds the scores by what reads them: a layer accuracy, top_k_accuracy, softmax_cross_entropy, nll_loss or
// binary_cross_entropy_with_logits among the outputs, the objectives or else all layers of the file, in this order.
// `scores` and `labels` name them instead; where only one is named, the other is found beside it. Null where there are
// none. Fails with InvalidArgument if what is named does not tell the other.
absl::StatusOr<std::optional<ClassScores>> FindClassScores(const proto::Network& network, const std::string& scores,
                                                           const std::string& labels);

// Finds the scores alone: `labels` is empty where no loss or metric of the network reads labels.
std::optional<ClassScores> FindScores(const proto::Network& network, const std::string& scores);

// What a loss or metric says of the scores and labels that it reads; nothing where the layer is none.
std::optional<ClassScores> ScoresReadBy(const proto::Layer& layer);

// Say what FindClassScores and FindScores looked for.
extern const char kNoClassScores[];
extern const char kNoScores[];

// Reads a value [batch, ..., classes] row by row.
class ScoreReader {
 public:
  // Fails with InvalidArgument if a value of this type has no scores for each sample.
  static absl::StatusOr<ScoreReader> Create(const ClassScores& scores, const ValueType& type, int64_t batch);

  int64_t classes() const { return classes_; }  // 2 where each number says no or yes
  int64_t rows_per_sample() const { return rows_per_sample_; }
  bool binary() const { return binary_; }

  // Reads a row as logits: natural logarithms of the probabilities, up to a common term.
  void Read(const ValueView& view, int64_t row, std::vector<double>* logits) const;

 private:
  ScoreReader() = default;

  bool binary_ = false, probabilities_ = false;
  int64_t stride_ = 1, classes_ = 2, rows_per_sample_ = 1;
  ValueType row_;
};

// What a row of logits says. Of equal logits the first wins. A row with a NaN says nothing, as in the op `accuracy`.
struct Prediction {
  int64_t best = -1;                // Confusion::kNone: nothing
  double largest = 0, log_sum = 0;  // the largest logit; the logarithm of the sum of exp(logit - largest)

  double probability(double logit) const;
  double cross_entropy(double logit) const { return log_sum + (largest - logit); }  // -log probability
};
Prediction PredictionOf(const std::vector<double>& logits);
// The same without the sum, and so without probabilities, which are NaN: it takes a fraction of the time.
Prediction LargestOf(const std::vector<double>& logits);

// The logarithm of p / (1 - p) of each class: it ranks rows as the probability does, and goes on telling apart those
// that round to 1. A class's number depends on the logits of the others, not on their sequence.
std::vector<double> LogOdds(const std::vector<double>& logits);

}  // namespace snug::core
