#include "tools/runs/rate_range.h"

#include <absl/strings/str_cat.h>
#include <absl/strings/str_format.h>

#include <algorithm>
#include <cmath>

#include "engine/base/status.h"

namespace snug::core::runs {
namespace {

// Two digits are as many as this test can tell.
double TwoDigits(double value) {
  const double unit = std::pow(10, std::floor(std::log10(value)) - 1);
  return std::round(value / unit) * unit;
}

double MeanOf(const std::vector<double>& values, size_t count) {
  double sum = 0;
  for (size_t i = 0; i < count; ++i) sum += values[i];
  return sum / static_cast<double>(count);
}

}  // namespace

RateRange::RateRange(const Options& options) : options_(options) {
  if (options_.smoothing == 0) options_.smoothing = std::max<int64_t>(1, options_.steps / 20);
}

double RateRange::RateOf(int64_t step) const {
  const double share = static_cast<double>(step) / static_cast<double>(options_.steps - 1);
  if (step <= 0) return options_.from;
  // By logarithms, because the quotient of both ends may be larger than any number.
  const double low = std::log(options_.from), high = std::log(options_.to);
  return std::clamp(std::exp(low + share * (high - low)), options_.from, options_.to);
}

double RateRange::Ceiling() const {
  // A loss near 0, or below it, is no measure for how far it may rise; how far it has fallen is one.
  const double measure = std::max(std::abs(least_), 0.05 * std::abs(first_ - least_));
  return least_ + (options_.stop_at - 1) * measure;
}

void RateRange::Add(double loss) {
  if (!std::isfinite(loss)) {
    Diverge(losses_.size());
    return;
  }
  losses_.push_back(loss);
  const double keep = 1 - 1 / static_cast<double>(options_.smoothing);
  running_ = keep * running_ + (1 - keep) * loss;
  weight_ = keep * weight_ + (1 - keep);
  const double mean = running_ / weight_;
  // As many losses as are averaged must have come before they mean anything.
  if (losses_.size() <= static_cast<size_t>(options_.smoothing)) {
    first_ = least_ = mean;
    return;
  }
  if (mean > Ceiling()) Diverge(losses_.size() - 1);
  least_ = std::min(least_, mean);
}

void RateRange::Diverge(size_t step) {
  if (!diverged_) diverged_step_ = static_cast<int64_t>(step);
  diverged_ = true;
}

std::vector<double> RateRange::Smoothed() const {
  // A loss that is far above where it began has left what is to be seen: how far does not matter.
  const double most = first_ + std::max(first_ - least_, 0.25 * std::abs(first_));
  const double reach = std::max(static_cast<double>(options_.smoothing) / 2, 0.1);
  // What is further away weighs less than one in a hundred thousand.
  const auto far = static_cast<size_t>(12 * reach) + 1;
  std::vector<double> smoothed;
  for (size_t i = 0; i < losses_.size(); ++i) {
    double sum = 0, weights = 0;
    for (size_t j = i - std::min(i, far); j < std::min(losses_.size(), i + far + 1); ++j) {
      const double distance = std::abs(static_cast<double>(i) - static_cast<double>(j));
      const double weight = std::exp(-distance / reach);
      sum += weight * std::min(losses_[j], most);
      weights += weight;
    }
    smoothed.push_back(sum / weights);
  }
  return smoothed;
}

absl::StatusOr<RateRange::Suggestion> RateRange::Suggest() const {
  const size_t n = losses_.size();
  const auto window = static_cast<size_t>(options_.smoothing);
  if (n == 0) {
    return absl::FailedPreconditionError(
        "the loss is not finite before the first update: no learning rate can help; look at the data, and at the "
        "parameters of --init-from where they are given");
  }
  const std::string begin_lower = absl::StrFormat("begin lower, with --from=%.0e", options_.from / 1000);
  if (n < 2 * window + 2) {
    return absl::FailedPreconditionError(
        absl::StrFormat("the loss diverges after %d steps already, at a learning rate of %.2g: %s", diverged_step_,
                        RateOf(diverged_step_), begin_lower));
  }
  const std::vector<double> smoothed = Smoothed();
  Suggestion found;
  const size_t first = std::min(n / 2, std::max(window, static_cast<size_t>(options_.steps / 10)));
  found.first_loss = MeanOf(losses_, first);
  // The first loss is that of the network as it was, before any update.
  if (found.first_loss - losses_[0] > (options_.stop_at - 1) * std::abs(losses_[0])) {
    return absl::FailedPreconditionError(
        absl::StrFormat("the loss rises from the first update on, from %.4g to %.4g in the mean of %d steps: %s",
                        losses_[0], found.first_loss, first, begin_lower));
  }
  const auto least = static_cast<size_t>(std::min_element(smoothed.begin(), smoothed.end()) - smoothed.begin());
  found.least_loss = smoothed[least];
  found.least = RateOf(static_cast<int64_t>(least));

  // By how much batches differ from each other where nothing is learnt yet, and so means of them.
  double spread = 0;
  for (size_t i = 0; i < first; ++i) spread += std::pow(losses_[i] - found.first_loss, 2);
  const double deviation = std::sqrt(spread / static_cast<double>(std::max<size_t>(1, first - 1) * window));
  const double fall = found.first_loss - found.least_loss;
  if (!(fall > std::max(4 * deviation, 0.005 * std::abs(found.first_loss)))) {
    return absl::FailedPreconditionError(absl::StrFormat(
        "the loss never falls clearly: it is %.4g at first, and %.4g at the least, at a learning rate of %.2g. %s",
        found.first_loss, found.least_loss, found.least,
        diverged_ && least < 2 * window ? absl::StrCat("It diverges from the beginning: ", begin_lower)
        : diverged_
            ? "It diverges before it falls: more --steps or a larger --batch may show where it falls; or the data "
              "do not tell what the labels are"
            : absl::StrFormat("A larger --to than %g, or more --steps, may show where it does; or the data do not "
                              "tell what the labels are",
                              options_.to)));
  }

  // The slope at a place, from one half window before it to one behind it.
  const size_t half = std::max<size_t>(1, window / 2);
  double steepest_slope = 0;
  size_t steepest = least;
  for (size_t i = half; i <= least && i + half < n; ++i) {
    const double slope = smoothed[i + half] - smoothed[i - half];
    if (slope >= steepest_slope) continue;
    steepest_slope = slope;
    steepest = i;
  }
  found.steepest = RateOf(static_cast<int64_t>(steepest));
  found.by_least = found.least / 3 < found.steepest;
  found.rate = TwoDigits(std::min(found.steepest, found.least / 3));
  found.still_falls = !diverged_ && least + window >= n;
  found.reason = absl::StrFormat(
      "%s: the loss falls from %.4g, fastest at %.2g, to %.4g at %.2g%s",
      found.by_least ? "a third of the learning rate at which the loss is least" : "where the loss falls fastest",
      found.first_loss, found.steepest, found.least_loss, found.least,
      diverged_ ? absl::StrFormat(", and diverges at %.2g", RateOf(diverged_step_)) : "");
  return found;
}

}  // namespace snug::core::runs
