// A line of metrics.jsonl, which may be torn, of another version, or of nobody we know.
#pragma once

#include <absl/strings/string_view.h>

#include <cstdint>
#include <optional>

#include "engine/train/metrics.h"

namespace snug::core {

struct MetricsLine {
  bool evaluation = false;  // or a step
  bool change = false;      // of an option, which run.json tells more of
  int64_t step = 0, epoch = 0;
  double rate = 0;                    // the learning rate; 0 where none is said
  double seconds = 0;                 // how long the step or the evaluation took
  std::optional<double> waited = {};  // how many of them the step waited for data; earlier versions did not say
  // NaN for what was not finite. What is no number is left out.
  Metrics metrics;
};

// Nothing where it is none.
std::optional<MetricsLine> ParseMetricsLine(absl::string_view line);

}  // namespace snug::core
