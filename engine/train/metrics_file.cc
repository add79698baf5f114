#include "engine/train/metrics_file.h"

#include <absl/strings/match.h>
#include <absl/strings/numbers.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/str_split.h>
#include <absl/strings/strip.h>
#include <fcntl.h>

#include <cerrno>
#include <fstream>

#include "engine/base/status.h"
#include "engine/base/text/json.h"
#include "engine/base/text/output_file.h"

namespace snug::core {
namespace {

constexpr const char* kStep = "step";
constexpr const char* kEvaluation = "evaluation";

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

// The lines up to that step, as they stand in the file.
std::string LinesUpTo(const std::string& path, int64_t step, std::vector<MetricsFile::Line>* kept) {
  std::ifstream file(path);
  std::string text, line;
  while (std::getline(file, line)) {
    std::string kind;
    int64_t at = 0;
    Metrics metrics;
    if (!ParseLine(line, &kind, &at, &metrics) || at > step) continue;
    absl::StrAppend(&text, line, "\n");
    kept->push_back(
        {kind == kStep ? MetricsFile::LineKind::kStep : MetricsFile::LineKind::kEvaluation, at, std::move(metrics)});
  }
  return text;
}

// Locks the file for as long as it is open, which the system ends with the program, however that ends. Nobody waits for
// the lock: who looks at the file sees by it that the training is still there (MetricsFile::IsBeingWritten). Where the
// file system has no locks, there is none.
void LockWhileOpen(std::FILE* file) {
  struct flock lock = {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  fcntl(fileno(file), F_OFD_SETLK, &lock);
}

}  // namespace

bool MetricsFile::IsBeingWritten(int file) {
  struct flock lock = {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  return fcntl(file, F_OFD_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
}

absl::StatusOr<std::unique_ptr<MetricsFile>> MetricsFile::Open(const std::string& path, int64_t step,
                                                               std::vector<Line>* kept) {
  const std::string text = step > 0 ? LinesUpTo(path, step, kept) : "";
  OutputFile::RemoveLeftovers(path);
  SNUG_ASSIGN_OR_RETURN(const std::unique_ptr<OutputFile> start, OutputFile::Create(path));
  start->Write(text);
  SNUG_RETURN_IF_ERROR(start->Finish());
  std::FILE* const file = std::fopen(path.c_str(), "a");
  if (file == nullptr) return absl::ErrnoToStatus(errno, absl::StrCat(path, ": cannot be written"));
  LockWhileOpen(file);
  return std::unique_ptr<MetricsFile>(new MetricsFile(path, file));
}

MetricsFile::~MetricsFile() { std::fclose(file_); }

absl::Status MetricsFile::Write(const std::string& json) {
  errno = 0;
  if (std::fprintf(file_, "%s\n", json.c_str()) >= 0 && std::fflush(file_) == 0) return absl::OkStatus();
  return absl::ErrnoToStatus(errno, absl::StrCat(path_, ": cannot be written"));
}

absl::Status MetricsFile::Step(const Trainer::StepReport& report) {
  return Write(MetricsJson(
      kStep, report.step, report.metrics,
      {{"epoch", static_cast<double>(report.epoch)}, {"learning_rate", report.rate}, {"seconds", report.seconds()}}));
}

absl::Status MetricsFile::Evaluation(const Trainer::EvaluationReport& report) {
  return Write(
      MetricsJson(kEvaluation, report.step, report.evaluation.metrics, {{"seconds", report.evaluation.seconds}}));
}

}  // namespace snug::core
