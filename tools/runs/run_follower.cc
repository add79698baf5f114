#include "tools/runs/run_follower.h"

#include <absl/strings/str_cat.h>

#include <algorithm>
#include <cmath>
#include <ctime>

#include "engine/base/status.h"
#include "engine/train/metrics_file.h"
#include "tools/runs/small_file.h"

namespace snug::core::runs {
namespace {

constexpr int64_t kBytesAtOnce = 4 << 20, kBytesCompared = 256;
constexpr size_t kLongestLine = 64 << 10, kMostCurves = 128, kStepsOfSpeed = 20;

double SecondsSince1970() {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

}  // namespace

const char* Name(RunState state) {
  switch (state) {
    case RunState::kWaiting:
      return "waiting";
    case RunState::kRunning:
      return "running";
    case RunState::kStalled:
      return "stalled";
    case RunState::kDone:
      return "done";
    case RunState::kStopped:
      return "stopped";
    case RunState::kFailed:
      return "failed";
    case RunState::kGone:
      return "gone";
    case RunState::kEnded:
      break;
  }
  return "ended";
}

RunFollower::RunFollower(const RunFolder& folder, double stalled_after_seconds)
    : folder_(folder), stalled_after_(stalled_after_seconds) {}

void RunFollower::BeginAnew() {
  if (lines_ + unreadable_lines_ > 0) ++beginnings_;
  curves_.clear();
  last_times_.clear();
  last_bytes_.clear();
  torn_.clear();
  too_long_ = false;
  device_ = number_ = 0;
  offset_ = lines_ = unreadable_lines_ = step_ = epoch_ = 0;
  rate_ = training_seconds_ = 0;
}

bool RunFollower::Poll() {
  ReadRecord();
  const bool more = ReadMetrics();
  ReadConfusion();
  // A training that has ended since its record was read had not said so there yet; it says so before it lets go of the
  // metrics.
  if (state_ == RunState::kGone) {
    ReadRecord();
    FindState(true, false);
  }
  return more;
}

void RunFollower::ReadRecord() {
  absl::StatusOr<RunRecord> record = RunRecord::ReadFrom(folder_);
  record_.reset();
  record_problem_.clear();
  if (record.ok()) {
    record_ = *std::move(record);
  } else if (!absl::IsNotFound(record.status())) {
    record_problem_ = std::string(record.status().message());
  }
}

// It is written after the evaluation's line of metrics, and read anew only where the file is another.
void RunFollower::ReadConfusion() {
  const absl::StatusOr<OpenedFile> file = OpenedFile::Open(folder_.confusion());
  std::optional<std::tuple<uint64_t, int64_t, double>> found;
  if (file.ok()) found = std::tuple(file->number(), file->size_bytes(), file->changed());
  const std::string problem = file.ok() || absl::IsNotFound(file.status()) ? "" : std::string(file.status().message());
  if (found == confusion_file_ && (found.has_value() || problem == confusion_problem_)) return;
  confusion_file_ = found;
  confusion_problem_ = problem;
  confusion_.reset();
  ++confusions_;
  if (!found.has_value()) return;
  absl::StatusOr<ConfusionRecord> read = ConfusionRecord::ReadFrom(folder_);
  if (read.ok()) {
    confusion_ = *std::move(read);
  } else if (!absl::IsNotFound(read.status())) {
    confusion_problem_ = std::string(read.status().message());
  }
}

void RunFollower::PollToTheEnd() {
  while (Poll()) {
  }
}

bool RunFollower::ReadMetrics() {
  const absl::StatusOr<OpenedFile> file = OpenedFile::Open(folder_.metrics());
  problem_.clear();
  if (!file.ok()) {
    if (!absl::IsNotFound(file.status())) problem_ = std::string(file.status().message());
    BeginAnew();
    FindState(false, false);
    return false;
  }
  seconds_since_change_ = std::max(0.0, SecondsSince1970() - file->changed());
  const bool same = file->device() == device_ && file->number() == number_ && file->size_bytes() >= offset_;
  const auto compared = static_cast<int64_t>(last_bytes_.size());
  const absl::StatusOr<std::string> before =
      same ? file->Read(offset_ - compared, compared) : absl::StatusOr<std::string>("");
  if (!same || !before.ok() || *before != last_bytes_) {
    BeginAnew();
    device_ = file->device();
    number_ = file->number();
  }
  const absl::StatusOr<std::string> text = file->Read(offset_, std::min(kBytesAtOnce, file->size_bytes() - offset_));
  if (!text.ok()) {
    problem_ = std::string(text.status().message());
    FindState(true, false);
    return false;
  }
  offset_ += static_cast<int64_t>(text->size());
  last_bytes_ += *text;
  if (last_bytes_.size() > kBytesCompared) last_bytes_.erase(0, last_bytes_.size() - kBytesCompared);
  ReadLines(*text);
  FindState(true, MetricsFile::IsBeingWritten(file->descriptor()));
  return !text->empty() && offset_ < file->size_bytes();
}

void RunFollower::ReadLines(const std::string& text) {
  size_t begin = 0;
  for (size_t end = text.find('\n'); end != std::string::npos; end = text.find('\n', begin)) {
    const absl::string_view piece = absl::string_view(text).substr(begin, end - begin);
    begin = end + 1;
    if (torn_.empty() && !too_long_) {
      TakeLine(piece);
      continue;
    }
    if (torn_.size() + piece.size() > kLongestLine) too_long_ = true;
    if (!too_long_) absl::StrAppend(&torn_, piece);
    TakeLine(too_long_ ? "" : torn_);
    torn_.clear();
    too_long_ = false;
  }
  const absl::string_view rest = absl::string_view(text).substr(begin);
  if (torn_.size() + rest.size() > kLongestLine) too_long_ = true;
  if (too_long_) {
    torn_.clear();
  } else {
    absl::StrAppend(&torn_, rest);
  }
}

void RunFollower::TakeLine(absl::string_view text) {
  const std::optional<MetricsLine> line = text.size() > kLongestLine ? std::nullopt : ParseMetricsLine(text);
  if (!line.has_value()) {
    ++unreadable_lines_;
    return;
  }
  ++lines_;
  if (!line->change) Take(*line);
}

void RunFollower::Take(const MetricsLine& line) {
  step_ = std::max(step_, line.step);
  if (!line.evaluation) {
    epoch_ = line.epoch;
    rate_ = line.rate;
    const bool timed = std::isfinite(line.seconds) && line.seconds > 0;
    if (timed) {
      training_seconds_ += line.seconds;
      if (last_times_.size() == kStepsOfSpeed) last_times_.erase(last_times_.begin());
      last_times_.push_back({.seconds = line.seconds, .waited = line.waited});
    }
    CurveOf(Kind::kLearningRate, "")->Add(line.step, training_seconds_, line.rate);
    if (timed && record_.has_value() && record_->batch > 0) {
      CurveOf(Kind::kSamplesPerSecond, "")
          ->Add(line.step, training_seconds_, static_cast<double>(record_->batch) / line.seconds);
    }
    if (timed && line.waited.has_value()) {
      CurveOf(Kind::kWaited, "")->Add(line.step, training_seconds_, *line.waited / line.seconds * 100);
    }
  }
  for (const auto& [metric, value] : line.metrics) {
    ThinCurve* const curve = CurveOf(line.evaluation ? Kind::kEvaluation : Kind::kTraining, metric);
    if (curve != nullptr) curve->Add(line.step, training_seconds_, value);
  }
}

const RunFollower::Curve* RunFollower::Find(Kind kind, const std::string& metric) const {
  const auto found = std::find_if(curves_.begin(), curves_.end(),
                                  [&](const Curve& curve) { return curve.kind == kind && curve.metric == metric; });
  return found == curves_.end() ? nullptr : &*found;
}

// Null where there are too many metrics already. The three curves that are no metric's come first, and have room.
ThinCurve* RunFollower::CurveOf(Kind kind, const std::string& metric) {
  if (const Curve* const found = Find(kind, metric)) return const_cast<ThinCurve*>(&found->points);
  const bool of_metric = kind == Kind::kTraining || kind == Kind::kEvaluation;
  if (of_metric && curves_.size() >= kMostCurves) return nullptr;
  curves_.push_back({.kind = kind, .metric = metric, .points = {}});
  return &curves_.back().points;
}

double RunFollower::samples_per_second() const {
  double seconds = 0;
  for (const StepTime& one : last_times_) seconds += one.seconds;
  if (seconds <= 0 || !record_.has_value()) return 0;
  return static_cast<double>(record_->batch) * static_cast<double>(last_times_.size()) / seconds;
}

std::optional<double> RunFollower::waited_share() const {
  double seconds = 0, waited = 0;
  for (const StepTime& one : last_times_) {
    if (!one.waited.has_value()) continue;
    seconds += one.seconds;
    waited += *one.waited;
  }
  const double share = waited / seconds;  // of the file's numbers, whatever they are
  return seconds > 0 && share >= 0 && share <= 1 ? std::optional<double>(share) : std::nullopt;
}

double RunFollower::seconds_left() const {
  if (state_ != RunState::kRunning || !record_.has_value() || step_ == 0 || step_ >= record_->steps) return 0;
  return training_seconds_ / static_cast<double>(step_) * static_cast<double>(record_->steps - step_);
}

void RunFollower::FindState(bool there, bool being_written) {
  if (!there) {
    state_ = RunState::kWaiting;
  } else if (being_written) {
    state_ = seconds_since_change_ > stalled_after_ ? RunState::kStalled : RunState::kRunning;
  } else if (!record_.has_value()) {
    state_ = RunState::kEnded;
  } else if (record_->state == "done") {
    state_ = RunState::kDone;
  } else if (record_->state == "stopped") {
    state_ = RunState::kStopped;
  } else if (record_->state == "failed") {
    state_ = RunState::kFailed;
  } else {
    state_ = RunState::kGone;
  }
}

}  // namespace snug::core::runs
