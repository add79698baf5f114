// What is told of a run: the loss, and every further output that is one number. And what the means of several batches
// are taken over, which are the rows that a loss or metric counted.
#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "engine/run/program.h"

namespace snug {

namespace proto {
class Network;
}

// The sum of the objectives as "loss", then each further output that is one number.
using Metrics = std::vector<std::pair<std::string, double>>;
absl::StatusOr<Metrics> MetricsOf(const proto::Network& network, Program& program);

// The labels by which losses and metrics leave rows out, and that layers compute: they are to be fetched.
std::vector<std::string> ComputedLabels(const proto::Network& network);

// Means over several batches, each of which counts by what was counted in it: for losses and metrics with an
// `ignore_index` the rows with another label, for everything else the samples.
class MeanMetrics {
 public:
  // Of programs that fetch ComputedLabels and differ in the batch alone.
  MeanMetrics(const proto::Network& network, const Program& program);

  // A run takes its inputs' bytes, so labels that are fed are looked at before it.
  absl::Status BeforeRun(Program& program);
  absl::Status AfterRun(Program& program);

  Metrics Get() const;

 private:
  struct Term {  // an objective or output
    std::string metric, output;
    std::string labels;  // empty: every row counts
    int64_t ignored = 0;
    bool labels_are_fed = false;
    double counted = 0;  // samples of this batch, or as many as the rows that count make up
    double sum = 0, all_counted = 0;
  };
  static absl::Status Count(const absl::StatusOr<ValueView>& labels, Term& term);

  std::vector<Term> terms_;
};

}  // namespace snug
