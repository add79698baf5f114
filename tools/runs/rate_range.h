// The learning rate range test (Smith, "Cyclical Learning Rates for Training Neural Networks", 2017): a short training
// whose learning rate grows from step to step by the same factor, from where nothing happens to where the loss
// diverges. Where the loss falls fastest on the way, a training may begin.
//
//   RateRange range({.from = 1e-6, .to = 10, .steps = 200});
//   for (int64_t i = 0; i < 200 && !range.diverged(); ++i) range.Add(LossOfAStepAt(range.RateOf(i)));
//   SNUG_ASSIGN_OR_RETURN(const RateRange::Suggestion suggestion, range.Suggest());
#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <string>
#include <vector>

namespace snug::core::runs {

class RateRange {
 public:
  struct Options {
    double from = 1e-6, to = 10;
    int64_t steps = 200;
    int64_t smoothing = 0;  // steps over which a loss is averaged; 0: a twentieth of them
    double stop_at = 4;     // it has diverged where it is so many times the least so far
  };
  struct Suggestion {
    double rate = 0;      // of two digits
    double steepest = 0;  // where the loss falls fastest
    double least = 0, least_loss = 0, first_loss = 0;
    bool still_falls = false;  // the least is at the end, and nothing diverged: a larger rate may be better
    bool by_least = false;     // the rate is a third of that where the loss is least, which is below the steepest
    std::string reason;        // a sentence
  };

  explicit RateRange(const Options& options);

  double RateOf(int64_t step) const;
  // The next step's loss; one that is not finite has diverged, and is no point.
  void Add(double loss);

  bool diverged() const { return diverged_; }
  size_t points() const { return losses_.size(); }
  const std::vector<double>& losses() const { return losses_; }
  // Each averaged with those before and after it; the nearer ones weigh more. What is far above the first losses counts
  // as less, so that one that explodes does not spoil those before it.
  std::vector<double> Smoothed() const;

  // FailedPrecondition where the losses tell nothing: it says why, and what to try.
  absl::StatusOr<Suggestion> Suggest() const;

 private:
  double Ceiling() const;
  void Diverge(size_t step);

  Options options_;
  std::vector<double> losses_;
  double running_ = 0, weight_ = 0;  // the mean of the last losses, as yet
  double first_ = 0, least_ = 0;     // of these means
  bool diverged_ = false;
  int64_t diverged_step_ = 0;  // whose loss told so
};

}  // namespace snug::core::runs
