// Reports a training while it runs: one line that is overwritten on a terminal, plain lines elsewhere, a file with a
// JSON object for every step and evaluation, and the curves at the end.
#pragma once

#include <absl/status/statusor.h>

#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "engine/train/metrics_file.h"
#include "engine/train/run_folder.h"
#include "engine/train/trainer.h"
#include "tools/picture/curve.h"

namespace snug::core::cli {

class TrainLog {
 public:
  struct Options {
    RunFolder folder;   // metrics and curve go there
    std::string title;  // of the curves
    std::FILE* out = nullptr;
    int64_t step = 0;                        // > 0: goes on from this step, with the metrics in the file
    std::vector<OptionChange> changes = {};  // of options on the way, those after that step too
    int64_t batch = 1, steps_per_epoch = 1, log_every = 0;
    int64_t memory_bytes = 0;
    std::vector<KnownMetric> metrics = {};
    std::vector<std::string> unsaid = {};  // metrics of evaluations that files alone are told, not the console
  };
  static absl::StatusOr<std::unique_ptr<TrainLog>> Open(const Options& options);
  ~TrainLog();

  absl::Status Step(const Trainer::StepReport& report);
  absl::Status Evaluation(const Trainer::EvaluationReport& report);
  absl::Status WriteCurve();

  const Metrics& last_step() const { return last_step_; }
  const Metrics& last_evaluation() const { return last_evaluation_; }
  double samples_per_second() const;
  // How much of their time the steps waited for data, and whether that is worth a line.
  double waited_share() const;
  bool waits() const;

 private:
  explicit TrainLog(Options options);
  void Remember(MetricsFile::LineKind kind, int64_t step, const Metrics& metrics);
  CurvePanel& PanelOf(const std::string& metric);
  void ClearLine();

  const Options options_;
  const bool terminal_;
  std::unique_ptr<MetricsFile> file_;
  std::vector<CurvePanel> panels_;  // one for each metric: single steps, evaluations
  Metrics last_step_, last_evaluation_;
  double seconds_ = 0, waited_ = 0;
  int64_t steps_ = 0;
  double shown_at_ = -1;  // when the line was last shown
  bool line_open_ = false;
};

}  // namespace snug::core::cli
