#include "tools/cli/train_log.h"

#include <absl/strings/str_format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cinttypes>
#include <cmath>
#include <utility>

#include "engine/base/status.h"
#include "engine/base/text/byte_size.h"
#include "engine/base/text/output_file.h"

namespace snug::core::cli {
namespace {

constexpr size_t kSmoothing = 25;

double Now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

std::string Duration(double seconds) {
  const auto s = static_cast<int64_t>(std::lround(seconds));
  return s < 3600 ? absl::StrFormat("%d:%02d", s / 60, s % 60)
                  : absl::StrFormat("%d:%02d:%02d", s / 3600, s / 60 % 60, s % 60);
}

std::string MetricsText(const Metrics& metrics, const std::vector<std::string>& unsaid = {}) {
  std::string text;
  for (const auto& [name, value] : metrics) {
    if (std::find(unsaid.begin(), unsaid.end(), name) != unsaid.end()) continue;
    absl::StrAppendFormat(&text, "  %s %.4g", name, value);
  }
  return text;
}

}  // namespace

absl::StatusOr<std::unique_ptr<TrainLog>> TrainLog::Open(const Options& options) {
  std::unique_ptr<TrainLog> log(new TrainLog(options));
  std::vector<MetricsFile::Line> kept;
  SNUG_ASSIGN_OR_RETURN(log->file_, MetricsFile::Open(options.folder.metrics(), options.step, &kept));
  for (const OptionChange& change : options.changes) {
    if (change.step == options.step) SNUG_RETURN_IF_ERROR(log->file_->Change(change));
  }
  OutputFile::RemoveLeftovers(options.folder.curve());  // from here on nobody else writes it
  for (const MetricsFile::Line& line : kept) log->Remember(line.kind, line.step, line.metrics);
  return log;
}

TrainLog::TrainLog(Options options) : options_(std::move(options)), terminal_(isatty(fileno(options_.out)) != 0) {}

TrainLog::~TrainLog() { ClearLine(); }

void TrainLog::ClearLine() {
  if (!line_open_) return;
  std::fputs("\n", options_.out);
  line_open_ = false;
}

void TrainLog::Remember(MetricsFile::LineKind kind, int64_t step, const Metrics& metrics) {
  const size_t series = kind == MetricsFile::LineKind::kStep ? 0 : 1;
  for (const auto& [name, value] : metrics) {
    PanelOf(name).series[series].points.emplace_back(static_cast<double>(step), value);
  }
}

CurvePanel& TrainLog::PanelOf(const std::string& metric) {
  for (CurvePanel& panel : panels_) {
    if (panel.title == metric) return panel;
  }
  const bool falls = std::any_of(options_.metrics.begin(), options_.metrics.end(), [&](const KnownMetric& one) {
    return one.name == metric && one.better == Better::kLess;
  });
  panels_.push_back(
      {.title = metric, .series = {{.name = "training", .faint = true}, {.name = "evaluation"}}, .falls = falls});
  return panels_.back();
}

double TrainLog::samples_per_second() const {
  return seconds_ <= 0 ? 0 : static_cast<double>(steps_ * options_.batch) / seconds_;
}

double TrainLog::waited_share() const { return seconds_ <= 0 ? 0 : waited_ / seconds_; }

// Of a training of a few quick steps, the first batch alone would be more.
bool TrainLog::waits() const { return waited_share() >= 0.01 && waited_ >= 0.1; }

absl::Status TrainLog::Step(const Trainer::StepReport& report) {
  last_step_ = report.metrics;
  seconds_ += report.seconds();
  waited_ += report.waited_seconds();
  ++steps_;
  Remember(MetricsFile::LineKind::kStep, report.step, report.metrics);
  SNUG_RETURN_IF_ERROR(file_->Step(report));
  const bool last = report.step == report.steps;
  if (terminal_) {
    const double now = Now();
    if (!last && now - shown_at_ < 0.1) return absl::OkStatus();
    shown_at_ = now;
  } else {
    const int64_t every = options_.log_every > 0 ? options_.log_every : std::max<int64_t>(1, report.steps / 40);
    if (!last && report.step % every != 0) return absl::OkStatus();
  }
  const double left = seconds_ / static_cast<double>(steps_) * static_cast<double>(report.steps - report.step);
  const std::string waited = waits() ? absl::StrFormat(" (%.0f %% waiting for data)", 100 * waited_share()) : "";
  const std::string line = absl::StrFormat("epoch %d  step %d/%d%s  %.0f samples/s%s  %s left  %s", report.epoch + 1,
                                           report.step, report.steps, MetricsText(report.metrics), samples_per_second(),
                                           waited, Duration(left), ByteSize(options_.memory_bytes));
  std::fprintf(options_.out, terminal_ ? "\r%s\x1b[K" : "%s\n", line.c_str());
  std::fflush(options_.out);
  line_open_ = terminal_;
  return absl::OkStatus();
}

absl::Status TrainLog::Evaluation(const Trainer::EvaluationReport& report) {
  const Evaluator::Report& of = report.evaluation;
  last_evaluation_ = of.metrics;
  Remember(MetricsFile::LineKind::kEvaluation, report.step, of.metrics);
  ClearLine();
  std::fprintf(options_.out, "evaluation after step %" PRId64 "%s  (%" PRId64 " samples, %.2f s)\n", report.step,
               MetricsText(of.metrics, options_.unsaid).c_str(), of.samples, of.seconds);
  std::fflush(options_.out);
  return file_->Evaluation(report);
}

absl::Status TrainLog::WriteCurve() {
  std::vector<CurvePanel> panels = panels_;
  for (CurvePanel& panel : panels) {
    if (panel.series[0].points.size() > kSmoothing) {
      panel.series.insert(panel.series.begin() + 1, Smoothed(panel.series[0], kSmoothing, "training"));
    } else {
      panel.series[0].faint = false;
    }
  }
  SNUG_ASSIGN_OR_RETURN(const std::unique_ptr<OutputFile> file, OutputFile::Create(options_.folder.curve()));
  file->Write(CurveSvg(options_.title, panels));
  return file->Finish();
}

}  // namespace snug::core::cli
