// What a training measured, kept: every step and evaluation in a file of one JSON object a line, which a training that
// goes on continues.
#pragma once

#include <absl/status/statusor.h>
#include <absl/strings/string_view.h>

#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine/train/option_change.h"
#include "engine/train/trainer.h"

namespace snug::core {

class MetricsFile {
 public:
  enum class LineKind : uint8_t { kStep, kEvaluation };
  struct Line {
    LineKind kind;
    int64_t step;
    Metrics metrics;
  };
  // A new file; or, of a training that goes on after `step` > 0, its lines up to there, which go to `kept` too. What
  // came after them is done again, and changes of options after that step are for the caller to write. Fails where
  // another training has the file open.
  static absl::StatusOr<std::unique_ptr<MetricsFile>> Open(const std::string& path, int64_t step,
                                                           std::vector<Line>* kept);
  ~MetricsFile();
  MetricsFile(const MetricsFile&) = delete;
  MetricsFile& operator=(const MetricsFile&) = delete;

  absl::Status Step(const Trainer::StepReport& report);
  absl::Status Evaluation(const Trainer::EvaluationReport& report);
  absl::Status Change(const OptionChange& change);

  // Whether a training, in whatever program, has the file open that this descriptor is of.
  static bool IsBeingWritten(int file);
  // An error where one has. Asked before anything is read that another training may be about to replace; Open makes
  // sure.
  static absl::Status CheckNobodyWrites(const std::string& path);

  // Whether lines have a number of their own by this name, which a metric may not have too.
  static bool IsReserved(absl::string_view metric);

 private:
  MetricsFile(std::string path, std::FILE* file) : path_(std::move(path)), file_(file) {}
  absl::Status Write(const std::string& json);

  std::string path_;
  std::FILE* file_;
};

}  // namespace snug::core
