#include "engine/train/judgement/class_scores.h"

#include <absl/strings/str_cat.h>
#include <absl/strings/strip.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "engine/base/status.h"
#include "engine/train/data/dataset.h"
#include "proto/network.pb.h"

namespace snug::core {
namespace {

// A layer's name stands for its first output.
std::string ValueName(const std::string& name) { return std::string(absl::StripSuffix(name, ":0")); }

const proto::Layer* FindLayer(const proto::Network& network, const std::string& name) {
  for (const proto::Layer& layer : network.layer()) {
    if (layer.name() == name) return &layer;
  }
  return nullptr;
}

const proto::Input* FindInput(const proto::Network& network, const std::string& name) {
  for (const proto::Input& input : network.input()) {
    if (input.name() == name) return &input;
  }
  return nullptr;
}

bool IsInteger(const proto::Input& input) { return input.dtype() == proto::INT32 || input.dtype() == proto::INT64; }

// All readers of scores, those that the network reports first.
std::vector<ClassScores> Candidates(const proto::Network& network) {
  std::vector<ClassScores> candidates;
  const auto consider = [&](const proto::Layer* layer) {
    std::optional<ClassScores> found = layer == nullptr ? std::nullopt : ScoresReadBy(*layer);
    if (found.has_value()) candidates.push_back(*std::move(found));
  };
  for (const std::string& name : network.output()) consider(FindLayer(network, name));
  for (const std::string& name : network.objective()) consider(FindLayer(network, name));
  for (const proto::Layer& layer : network.layer()) consider(&layer);
  return candidates;
}

// Whether another input has numbers of the same shape and range as the labels.
bool LabelsAreTokens(const proto::Network& network, const std::string& name) {
  const proto::Input* const labels = FindInput(network, name);
  if (labels == nullptr || !IsInteger(*labels) || labels->shape().dim_size() == 0) return false;
  return std::any_of(network.input().begin(), network.input().end(), [&](const proto::Input& input) {
    return &input != labels && IsInteger(input) && input.max_value() == labels->max_value() &&
           std::equal(input.shape().dim().begin(), input.shape().dim().end(), labels->shape().dim().begin(),
                      labels->shape().dim().end());
  });
}

// Adds what follows from the network whoever named the scores.
void Complete(const proto::Network& network, const std::vector<ClassScores>& candidates, ClassScores* found) {
  found->labels_are_fed = FindInput(network, found->labels) != nullptr;
  found->language = LabelsAreTokens(network, found->labels);
  for (const ClassScores& other : candidates) {
    if (other.scores != found->scores || other.labels != found->labels) continue;
    if (found->classes == 0) found->classes = other.classes;
    if (found->likelihood.empty()) found->likelihood = other.likelihood;
    found->binary |= other.binary;
  }
  const proto::Layer* const maker = FindLayer(network, found->scores);
  if (maker == nullptr) return;
  const bool softmax = maker->op_case() == proto::Layer::kSoftmax, sigmoid = maker->op_case() == proto::Layer::kSigmoid;
  if (!softmax && !sigmoid) return;
  // What reads the scores says more surely what they are than what made them: whoever takes the number of a class as
  // the label compares the scores of a row, and a loss "with logits" takes probabilities for logits too.
  bool compared = false, logits = found->binary;
  for (const proto::Layer& layer : network.layer()) {
    const std::optional<ClassScores> reader = ScoresReadBy(layer);
    if (!reader.has_value() || reader->scores != found->scores) continue;
    compared |= !reader->binary;
    logits |= layer.op_case() == proto::Layer::kSoftmaxCrossEntropy;
  }
  found->probabilities = !logits;
  found->binary |= sigmoid && !compared;
}

// Adds the labels, unless they are known, and what is known of them, to scores that nothing reads beside these labels.
void TakeLabels(const std::vector<ClassScores>& candidates, ClassScores* found) {
  bool first = true;
  for (const ClassScores& candidate : candidates) {
    if (found->labels.empty()) found->labels = candidate.labels;
    if (found->labels != candidate.labels) continue;
    if (std::exchange(first, false)) found->ignored = candidate.ignored;
    if (found->classes == 0) found->classes = candidate.classes;  // not every reader says
  }
}

absl::StatusOr<std::string> OnlyIntegerInput(const proto::Network& network) {
  std::string found;
  for (const proto::Input& input : network.input()) {
    if (!IsInteger(input)) continue;
    if (!found.empty()) {
      return absl::InvalidArgumentError(
          absl::StrCat("--labels: expected the input that has the labels, as the network "
                       "has several of whole numbers: \"",
                       found, "\", \"", input.name(), "\""));
    }
    found = input.name();
  }
  if (!found.empty()) return found;
  return absl::InvalidArgumentError(
      "--labels: expected the input that has the labels, as the network has none of whole numbers");
}

}  // namespace

std::optional<ClassScores> ScoresReadBy(const proto::Layer& layer) {
  if (layer.input_size() < 2) return std::nullopt;
  ClassScores found{.scores = ValueName(layer.input(0)), .labels = ValueName(layer.input(1))};
  switch (layer.op_case()) {
    case proto::Layer::kSoftmaxCrossEntropy:
      found.ignored = layer.softmax_cross_entropy().ignore_index();
      found.classes = layer.softmax_cross_entropy().classes();
      if (layer.softmax_cross_entropy().label_smoothing() == 0) found.likelihood = layer.name();
      return found;
    case proto::Layer::kNllLoss:
      found.ignored = layer.nll_loss().ignore_index();
      found.likelihood = layer.name();
      return found;
    case proto::Layer::kAccuracy:
      found.ignored = layer.accuracy().ignore_index();
      return found;
    case proto::Layer::kTopKAccuracy:
      found.ignored = layer.top_k_accuracy().ignore_index();
      return found;
    case proto::Layer::kBinaryCrossEntropyWithLogits:
      found.ignored = kIgnoredLabel;
      found.binary = true;
      return found;
    default:
      return std::nullopt;
  }
}

const char kNoClassScores[] =
    "no layer is a softmax_cross_entropy, nll_loss, binary_cross_entropy_with_logits, accuracy or top_k_accuracy, "
    "which "
    "would tell the scores and the labels; --scores=LAYER --labels=INPUT names them";
const char kNoScores[] =
    "no layer is a softmax_cross_entropy, nll_loss, binary_cross_entropy_with_logits, accuracy or top_k_accuracy, "
    "which "
    "would tell them; --scores=LAYER names them";

absl::StatusOr<std::optional<ClassScores>> FindClassScores(const proto::Network& network, const std::string& scores,
                                                           const std::string& labels) {
  const std::vector<ClassScores> candidates = Candidates(network);
  std::optional<ClassScores> found;
  for (const ClassScores& candidate : candidates) {
    const bool fits = (scores.empty() || candidate.scores == ValueName(scores)) &&
                      (labels.empty() || candidate.labels == ValueName(labels));
    if (fits && !found.has_value()) found = candidate;
  }
  if (!found.has_value() && scores.empty() && !labels.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("--labels=", labels,
                     ": expected --scores=LAYER beside it, as no loss or metric of the network reads these labels"));
  }
  if (!found.has_value() && !scores.empty()) {
    found = ClassScores{.scores = ValueName(scores), .labels = ValueName(labels), .ignored = kIgnoredLabel};
    TakeLabels(candidates, &*found);
    if (found->labels.empty()) {
      SNUG_ASSIGN_OR_RETURN(found->labels, OnlyIntegerInput(network));
    }
  }
  if (found.has_value()) Complete(network, candidates, &*found);
  return found;
}

std::optional<ClassScores> FindScores(const proto::Network& network, const std::string& scores) {
  const std::vector<ClassScores> candidates = Candidates(network);
  std::optional<ClassScores> found;
  for (const ClassScores& candidate : candidates) {
    if (!found.has_value() && (scores.empty() || candidate.scores == ValueName(scores))) found = candidate;
  }
  if (!found.has_value() && !scores.empty()) {
    found = ClassScores{.scores = ValueName(scores), .labels = ""};
    TakeLabels(candidates, &*found);
  }
  if (found.has_value()) Complete(network, candidates, &*found);
  return found;
}

absl::StatusOr<ScoreReader> ScoreReader::Create(const ClassScores& scores, const ValueType& type, int64_t batch) {
  const auto refuse = [&](absl::string_view expected) {
    return absl::InvalidArgumentError(
        absl::StrCat("scores \"", scores.scores, "\": expected ", expected, ", found ", type.ToString()));
  };
  const int rank = type.shape.rank();
  if (rank == 0 || type.shape[0] != batch || !IsFloating(type.dtype)) {
    return refuse(absl::StrCat("real numbers for each of ", batch, " samples"));
  }
  ScoreReader rows;
  rows.probabilities_ = scores.probabilities;
  rows.binary_ = scores.binary || rank == 1 || type.shape[rank - 1] == 1;
  if (!rows.binary_) {
    rows.stride_ = type.shape[rank - 1];
    rows.classes_ = scores.classes > 0 ? scores.classes : rows.stride_;
    if (rows.classes_ > rows.stride_) return refuse(absl::StrCat("at least ", rows.classes_, " classes"));
  }
  rows.rows_per_sample_ = type.num_elements() / batch / rows.stride_;
  rows.row_ = {.dtype = type.dtype, .shape = {rows.binary_ ? 1 : rows.classes_}, .layout = {}};
  return rows;
}

void ScoreReader::Read(const ValueView& view, int64_t row, std::vector<double>* logits) const {
  const std::byte* const data = view.data + row * stride_ * SizeOf(row_.dtype);
  if (row_.dtype == DType::kFloat32) {
    const auto* const numbers = reinterpret_cast<const float*>(data);
    logits->assign(numbers, numbers + row_.num_elements());
  } else {
    *logits = LoadNumbers({&row_, const_cast<std::byte*>(data)});
  }
  if (binary_) {
    const double yes = (*logits)[0];
    *logits = probabilities_ ? std::vector<double>{std::log(1 - yes), std::log(yes)} : std::vector<double>{0, yes};
  } else if (probabilities_) {
    for (double& number : *logits) number = std::log(number);
  }
}

double Prediction::probability(double logit) const { return std::exp(-cross_entropy(logit)); }

Prediction LargestOf(const std::vector<double>& logits) {
  constexpr double kNothing = std::numeric_limits<double>::quiet_NaN();
  Prediction p{.best = 0, .largest = logits[0], .log_sum = kNothing};
  bool numbers = true;
  for (size_t c = 0; c < logits.size(); ++c) {
    numbers = numbers && !std::isnan(logits[c]);
    if (logits[c] <= p.largest) continue;
    p.largest = logits[c];
    p.best = static_cast<int64_t>(c);
  }
  return numbers ? p : Prediction{.best = -1, .largest = kNothing, .log_sum = kNothing};
}

Prediction PredictionOf(const std::vector<double>& logits) {
  Prediction p = LargestOf(logits);
  if (p.best < 0) return p;
  double sum = 0;
  for (const double logit : logits) sum += std::exp(logit - p.largest);
  p.log_sum = std::log(sum);
  return p;
}

std::vector<double> LogOdds(const std::vector<double>& logits) {
  std::vector<double> odds(logits.size());
  if (logits.size() == 2) return {logits[0] - logits[1], logits[1] - logits[0]};
  const double largest = *std::max_element(logits.begin(), logits.end());
  if (!std::isfinite(largest)) {
    std::fill(odds.begin(), odds.end(), std::numeric_limits<double>::quiet_NaN());
    return odds;
  }
  std::vector<double> sorted;
  for (const double logit : logits) sorted.push_back(std::exp(logit - largest));
  std::sort(sorted.begin(), sorted.end());  // so that sums do not depend on which class has which share
  double others_of_largest = 0;
  for (size_t i = 0; i + 1 < sorted.size(); ++i) others_of_largest += sorted[i];
  const double all = others_of_largest + sorted.back();
  for (size_t c = 0; c < logits.size(); ++c) {
    // Of the largest, the others are summed by themselves: taken from `all` they would drown in it.
    const double others = logits[c] == largest ? others_of_largest : all - std::exp(logits[c] - largest);
    odds[c] = logits[c] - largest - std::log(others);
  }
  return odds;
}

}  // namespace snug::core
