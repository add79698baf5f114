// What a command says, and whom it obeys, while data are made ready before its first step.
#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <cstdio>
#include <map>
#include <string>

#include "engine/train/training_options.h"

namespace snug::core::cli {

// Shows how many of many images are decoded: a line that is overwritten on a terminal, plain lines elsewhere, none
// where it takes a moment. In that time, Ctrl-C and the like are requests to stop.
class PreparationLog {
 public:
  explicit PreparationLog(std::FILE* out);
  // Ends the line. Signals do again what they did before.
  ~PreparationLog();
  PreparationLog(const PreparationLog&) = delete;
  PreparationLog& operator=(const PreparationLog&) = delete;

  // A DataProgress.
  bool GoesOn(int64_t done, int64_t all);

 private:
  std::FILE* const out_;
  const bool terminal_;
  bool line_open_ = false, catches_ = false;
  double begin_ = 0, shown_at_ = 0;  // seconds
};

// As OpenData, with such a log on `out`.
absl::StatusOr<TrainingData> OpenDataAloud(std::FILE* out, const proto::Data& data, const proto::Network& network,
                                           uint64_t seed, const std::map<std::string, std::string>* kept = nullptr,
                                           bool goes_on = false, bool may_lack_labels = false);

}  // namespace snug::core::cli
