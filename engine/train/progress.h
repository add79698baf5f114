// What a training's evaluations say of its course: which was the best so far, when to end it, and how far the learning
// rate has fallen. All of it is in checkpoints, so a training that goes on decides as it would have.
#pragma once

#include <absl/status/status.h>
#include <absl/strings/string_view.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "engine/train/metric_direction.h"
#include "engine/train/metrics.h"

namespace snug::proto {
class Training;
}

namespace snug::core {

class Progress {
 public:
  // By `training.best` and `training.schedule.plateau`; without them, nothing is followed. `metrics` are those that
  // evaluations have: none without data for them.
  Progress(const proto::Training& training, std::vector<KnownMetric> metrics);

  // Whether evaluations have the metrics that are asked for, and it is known which of their values are better. Fails
  // with InvalidArgument, which names the metrics that there are. `missing` says why there are no others.
  absl::Status Check(absl::string_view missing = "") const;

  struct Verdict {
    bool best = false;       // better than every evaluation before
    bool rate_fell = false;  // the learning rate is smaller from now on
  };
  Verdict Evaluated(int64_t step, const Metrics& metrics);

  bool keeps_best() const { return best_.followed(); }
  bool follows_plateau() const { return plateau_.followed(); }
  bool ended() const { return patience_ > 0 && best_.waited >= patience_; }  // `patience` is at its end
  double rate_factor() const { return rate_factor_; }
  const std::string& best_metric() const { return best_.metric; }
  const std::string& plateau_metric() const { return plateau_.metric; }
  // The metrics of evaluations, with what the options say of those that are followed.
  const std::vector<KnownMetric>& metrics() const { return metrics_; }
  std::optional<double> best_value() const { return best_.value; }
  int64_t best_step() const { return best_.step; }

  // What a checkpoint keeps of it; nothing where nothing is followed.
  std::map<std::string, std::string> ToMetadata() const;
  // Goes on from what a checkpoint has kept, if it has. What it kept of another metric does not count. Fails with
  // DataLoss, and changes nothing, where that is no number.
  absl::Status Restore(const std::map<std::string, std::string>& metadata);
  // Whether a checkpoint has kept something of a metric that is followed.
  bool WasKept(const std::map<std::string, std::string>& metadata) const;
  // Where the training goes on with other data: from now on evaluations are counted anew that were no better. Unless
  // `best_counts`, what was best so far is forgotten as well: other data to evaluate with say nothing about it. How far
  // the learning rate has fallen stays.
  void BeginAnew(bool best_counts);

 private:
  // The best value of one metric, and how many evaluations have been no better since.
  struct Leader {
    std::string metric;  // empty: not followed
    Better better = Better::kUnknown;
    std::optional<double> value;
    int64_t step = 0, waited = 0;

    bool followed() const { return !metric.empty(); }
    bool Consider(int64_t at, const Metrics& metrics);
    void BeginAnew(bool best_counts);
    void Write(absl::string_view prefix, std::map<std::string, std::string>* metadata) const;
    absl::Status Read(absl::string_view prefix, const std::map<std::string, std::string>& metadata);
    bool WasKept(absl::string_view prefix, const std::map<std::string, std::string>& metadata) const;
  };
  Leader Follow(const std::string& metric);
  absl::Status CheckMetric(absl::string_view option, const Leader& leader, absl::string_view missing) const;
  std::string NamesOfMetrics() const;

  std::vector<KnownMetric> metrics_;
  Leader best_, plateau_;
  int64_t patience_ = 0;  // 0: without end
  int64_t plateau_patience_ = 0;
  double fall_ = 1, least_factor_ = 0;
  double rate_factor_ = 1;
};

}  // namespace snug::core
