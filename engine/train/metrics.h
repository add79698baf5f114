// The figures that are reported for a run: the loss, and every further output that is one number. Also counts the rows
// that each loss or metric counted, over which the means of several batches are taken.
#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "engine/run/session/program.h"
#include "engine/train/metric_direction.h"

namespace snug::proto {
class Network;
}

namespace snug::core {

// Returns the sum of the objectives as "loss", then, where updates minimise them one after the other, each by itself,
// then each further output that is one number. A layer that is called "loss" and is not that sum is "loss:0".
using Metrics = std::vector<std::pair<std::string, double>>;
std::vector<std::string> MetricNames(const proto::Network& network, const Program& program);
// The same, with which of their values are better.
std::vector<KnownMetric> KnownMetrics(const proto::Network& network, const Program& program);
absl::StatusOr<Metrics> MetricsOf(const proto::Network& network, Program& program);

// Returns the labels that layers compute and by which losses and metrics leave rows out. They must be fetched.
std::vector<std::string> ComputedLabels(const proto::Network& network);

// Means over several batches. A batch weighs as much as was counted in it: for losses and metrics with an
// `ignore_index` the rows with another label, for everything else the samples.
class MeanMetrics {
 public:
  // The programs that it is used with must fetch ComputedLabels, and may differ only in the batch.
  MeanMetrics(const proto::Network& network, const Program& program);

  // Counts the labels that are fed. It must come before the run, which may overwrite its inputs.
  absl::Status BeforeRun(Program& program);
  absl::Status AfterRun(Program& program);

  Metrics Get() const;
  Metrics GetObjectives() const;  // each objective by its own name

 private:
  struct Term {  // one objective or output
    std::string metric, output;
    bool objective = false;
    std::string labels;  // empty: every row counts
    int64_t ignored = 0;
    bool labels_are_fed = false;
    double counted = 0;  // what counts in this batch, in samples
    double sum = 0, all_counted = 0;
  };
  static absl::Status Count(const absl::StatusOr<ValueView>& labels, Term& term);

  std::vector<Term> terms_;
};

}  // namespace snug::core
