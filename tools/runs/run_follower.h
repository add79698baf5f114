// Follows a run folder while a training in another program writes into it: what metrics.jsonl has, as curves, and
// whether the training goes on. The folder need not be there yet. A file that is replaced, as by a training that goes
// on from a checkpoint or begins anew, is read from its beginning; a last line that is not yet whole waits for its end.
#pragma once

#include <absl/status/status.h>

#include <cstdint>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "engine/train/metrics_line.h"
#include "engine/train/run_folder.h"
#include "tools/runs/confusion_record.h"
#include "tools/runs/run_record.h"
#include "tools/runs/thin_curve.h"

namespace snug::core::runs {

enum class RunState : uint8_t {
  kWaiting,  // no training has begun here
  kRunning,
  kStalled,  // it is there, but has written no line for long
  kDone,
  kStopped,  // by a signal, after a checkpoint
  kFailed,
  kGone,   // it is not there any more, and did not say that it ended: killed, or the machine was
  kEnded,  // it is not there any more; it is of a version that does not say how it ended
};
const char* Name(RunState state);

class RunFollower {
 public:
  // What a curve is of; kWaited: how many percent of their time steps waited for data.
  enum class Kind : uint8_t { kTraining, kEvaluation, kLearningRate, kSamplesPerSecond, kWaited };
  struct Curve {
    Kind kind;
    std::string metric;  // of training and evaluation
    ThinCurve points;
  };

  explicit RunFollower(const RunFolder& folder, double stalled_after_seconds = 60);

  // Reads what has come, up to some megabytes. Returns whether there is more to read at once.
  bool Poll();
  // Polls until all is read that is there.
  void PollToTheEnd();

  const RunFolder& folder() const { return folder_; }
  RunState state() const { return state_; }
  const std::string& problem() const { return problem_; }  // why the metrics cannot be read; empty: they can
  const std::optional<RunRecord>& record() const { return record_; }
  const std::string& record_problem() const { return record_problem_; }  // why there is none, though its file is there
  const std::vector<Curve>& curves() const { return curves_; }           // in the sequence in which they first came
  const Curve* Find(Kind kind, const std::string& metric = "") const;
  // What the last evaluation took for what, and why that is not known, though its file is there.
  const std::optional<ConfusionRecord>& confusion() const { return confusion_; }
  const std::string& confusion_problem() const { return confusion_problem_; }
  int64_t confusions() const { return confusions_; }  // rises when it is another, or gone
  int64_t beginnings() const { return beginnings_; }  // rises when all that was read before does not count any more
  int64_t lines() const { return lines_; }
  int64_t unreadable_lines() const { return unreadable_lines_; }
  int64_t step() const { return step_; }
  int64_t epoch() const { return epoch_; }
  double rate() const { return rate_; }
  double training_seconds() const { return training_seconds_; }  // in steps
  double seconds_since_change() const { return seconds_since_change_; }
  // Of the last steps; 0 where it cannot be known.
  double samples_per_second() const;
  // How much of their time the last steps waited for data; nothing where that is not said.
  std::optional<double> waited_share() const;
  double seconds_left() const;  // 0 where it cannot be known

 private:
  void BeginAnew();
  void ReadRecord();
  void ReadConfusion();
  bool ReadMetrics();
  void ReadLines(const std::string& text);
  void TakeLine(absl::string_view text);
  void Take(const MetricsLine& line);
  ThinCurve* CurveOf(Kind kind, const std::string& metric);
  void FindState(bool there, bool being_written);

  const RunFolder folder_;
  const double stalled_after_;
  // Which file was read how far, and the last bytes of that: where they are others by now, so is the rest.
  uint64_t device_ = 0, number_ = 0;
  int64_t offset_ = 0;
  std::string last_bytes_;
  std::string torn_;       // the line whose end has not come
  bool too_long_ = false;  // that line is longer than any of ours
  struct StepTime {
    double seconds = 0;
    std::optional<double> waited = {};  // for data
  };
  std::vector<StepTime> last_times_;  // of single steps, the newest last
  std::vector<Curve> curves_;
  std::optional<RunRecord> record_;
  std::optional<ConfusionRecord> confusion_;
  // Which file of that was read last: its number, size and time of change. Nothing: there was none.
  std::optional<std::tuple<uint64_t, int64_t, double>> confusion_file_;
  RunState state_ = RunState::kWaiting;
  std::string problem_, record_problem_, confusion_problem_;
  int64_t beginnings_ = 0, confusions_ = 0, lines_ = 0, unreadable_lines_ = 0, step_ = 0, epoch_ = 0;
  double rate_ = 0, training_seconds_ = 0, seconds_since_change_ = 0;
};

}  // namespace snug::core::runs
