#include "tools/cli/train_log.h"

#include <absl/strings/match.h>
#include <absl/strings/numbers.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/str_format.h>
#include <absl/strings/str_split.h>
#include <absl/strings/strip.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cinttypes>
#include <cmath>
#include <cstring>
#include <fstream>
#include <utility>

#include "engine/base/byte_size.h"
#include "engine/base/json.h"
#include "engine/base/output_file.h"
#include "engine/base/status.h"

namespace snug::cli {
namespace {

constexpr size_t kSmoothing = 25;

double Now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

std::string Duration(double seconds) {
  const auto s = static_cast<int64_t>(std::lround(seconds));
  return s < 3600 ? absl::StrFormat("%d:%02d", s / 60, s % 60)
                  : absl::StrFormat("%d:%02d:%02d", s / 3600, s / 60 % 60, s % 60);
}

std::string MetricsText(const Metrics& metrics) {
  std::string text;
  for (const auto& [name, value] : metrics) absl::StrAppendFormat(&text, "  %s %.4g", name, value);
  return text;
}

std::string MetricsJson(const char* kind, int64_t step, const Metrics& metrics,
                        const std::vector<std::pair<const char*, double>>& more) {
  Json json;
  json.Object().Key("kind").String(kind).Key("step").Number(step);
  for (const auto& [name, value] : metrics) json.Key(name).Number(value);
  for (const auto& [name, value] : more) json.Key(name).Number(value);
  json.End();
  return json.text();
}

// What MetricsJson wrote: the step, and the other numbers by name. False for anything else, as a line cut short.
bool ParseLine(absl::string_view line, std::string* kind, int64_t* step, Metrics* metrics) {
  if (!absl::ConsumePrefix(&line, "{\"kind\": \"") || !absl::ConsumeSuffix(&line, "}")) return false;
  const std::vector<absl::string_view> members = absl::StrSplit(line, ", ");
  *kind = std::string(absl::StripSuffix(members[0], "\""));
  *step = -1;
  for (size_t i = 1; i < members.size(); ++i) {
    const std::vector<absl::string_view> parts = absl::StrSplit(members[i], absl::MaxSplits("\": ", 1));
    double value = 0;
    if (parts.size() != 2 || !absl::StartsWith(parts[0], "\"") || !absl::SimpleAtod(parts[1], &value)) return false;
    const std::string name(parts[0].substr(1));
    if (name == "step") {
      *step = static_cast<int64_t>(value);
    } else if (name != "epoch" && name != "learning_rate" && name != "seconds") {
      metrics->emplace_back(name, value);
    }
  }
  return *step >= 0;
}

}  // namespace

absl::StatusOr<std::unique_ptr<TrainLog>> TrainLog::Open(const Options& options) {
  std::unique_ptr<TrainLog> log(new TrainLog(options));
  const std::string kept = options.step > 0 ? log->ReadOld() : "";
  const std::string path = options.directory + "/metrics.jsonl";
  for (const std::string& file : {path, log->CurvePath()}) OutputFile::RemoveLeftovers(file);
  SNUG_ASSIGN_OR_RETURN(const std::unique_ptr<OutputFile> start, OutputFile::Create(path));
  start->Write(kept);
  SNUG_RETURN_IF_ERROR(start->Finish());
  log->file_ = std::fopen(path.c_str(), "a");
  if (log->file_ == nullptr) return absl::ErrnoToStatus(errno, absl::StrCat(path, ": cannot be written"));
  return log;
}

// The lines up to the step that the training goes on from; what came after it is done again.
std::string TrainLog::ReadOld() {
  std::ifstream file(options_.directory + "/metrics.jsonl");
  std::string kept, line;
  while (std::getline(file, line)) {
    std::string kind;
    int64_t step = 0;
    Metrics metrics;
    if (!ParseLine(line, &kind, &step, &metrics) || step > options_.step) continue;
    absl::StrAppend(&kept, line, "\n");
    Remember(kind.c_str(), step, metrics);
  }
  return kept;
}

TrainLog::TrainLog(Options options) : options_(std::move(options)), terminal_(isatty(fileno(options_.out)) != 0) {}

TrainLog::~TrainLog() {
  ClearLine();
  if (file_ != nullptr) std::fclose(file_);
}

void TrainLog::ClearLine() {
  if (!line_open_) return;
  std::fputs("\n", options_.out);
  line_open_ = false;
}

absl::Status TrainLog::WriteLine(const std::string& json) {
  errno = 0;
  if (std::fprintf(file_, "%s\n", json.c_str()) >= 0 && std::fflush(file_) == 0) return absl::OkStatus();
  return absl::ErrnoToStatus(errno, absl::StrCat(options_.directory, "/metrics.jsonl: cannot be written"));
}

void TrainLog::Remember(const char* kind, int64_t step, const Metrics& metrics) {
  const size_t series = std::strcmp(kind, "step") == 0 ? 0 : 1;
  for (const auto& [name, value] : metrics) {
    PanelOf(name).series[series].points.emplace_back(static_cast<double>(step), value);
  }
}

CurvePanel& TrainLog::PanelOf(const std::string& metric) {
  for (CurvePanel& panel : panels_) {
    if (panel.title == metric) return panel;
  }
  panels_.push_back({.title = metric,
                     .series = {{.name = "training", .faint = true}, {.name = "evaluation"}},
                     .falls = metric == "loss"});
  return panels_.back();
}

double TrainLog::samples_per_second() const {
  return seconds_ <= 0 ? 0 : static_cast<double>(steps_ * options_.batch) / seconds_;
}

absl::Status TrainLog::Step(const Trainer::StepReport& report) {
  last_step_ = report.metrics;
  seconds_ += report.seconds();
  ++steps_;
  Remember("step", report.step, report.metrics);
  SNUG_RETURN_IF_ERROR(WriteLine(MetricsJson(
      "step", report.step, report.metrics,
      {{"epoch", static_cast<double>(report.epoch)}, {"learning_rate", report.rate}, {"seconds", report.seconds()}})));
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
  const std::string line = absl::StrFormat("epoch %d  step %d/%d%s  %.0f samples/s  %s left  %s", report.epoch + 1,
                                           report.step, report.steps, MetricsText(report.metrics), samples_per_second(),
                                           Duration(left), ByteSize(options_.memory_bytes));
  std::fprintf(options_.out, terminal_ ? "\r%s\x1b[K" : "%s\n", line.c_str());
  std::fflush(options_.out);
  line_open_ = terminal_;
  return absl::OkStatus();
}

absl::Status TrainLog::Evaluation(const Trainer::EvaluationReport& report) {
  const Evaluator::Report& of = report.evaluation;
  last_evaluation_ = of.metrics;
  Remember("evaluation", report.step, of.metrics);
  ClearLine();
  std::fprintf(options_.out, "evaluation after step %" PRId64 "%s  (%" PRId64 " samples, %.2f s)\n", report.step,
               MetricsText(of.metrics).c_str(), of.samples, of.seconds);
  std::fflush(options_.out);
  return WriteLine(MetricsJson("evaluation", report.step, of.metrics, {{"seconds", of.seconds}}));
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
  SNUG_ASSIGN_OR_RETURN(const std::unique_ptr<OutputFile> file, OutputFile::Create(CurvePath()));
  file->Write(CurveSvg(options_.title, panels));
  return file->Finish();
}

}  // namespace snug::cli
