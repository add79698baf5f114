// What `snug eval --report` shows, as the document that its page draws.
#pragma once

#include <absl/status/statusor.h>

#include <string>

#include "engine/train/evaluator.h"
#include "engine/train/judgement/judge.h"
#include "tools/cli/judge/class_names.h"

namespace snug::core::cli {

struct ReportFacts {
  std::string network, checkpoint, part;
  Evaluator::Report report;
  double perplexity = 0;  // 0: it has none
};

constexpr int64_t kWorstSamples = 24;

// Reads the worst samples from the data anew: fields that are images become pictures, of others the first numbers are
// given.
absl::StatusOr<std::string> ReportDocument(const ReportFacts& facts, const Judgement& judgement,
                                           const ClassNames& names, const Dataset& dataset);

}  // namespace snug::core::cli
