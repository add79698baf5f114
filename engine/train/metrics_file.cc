#include "engine/train/metrics_file.h"

#include <absl/strings/match.h>
#include <absl/strings/numbers.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/str_split.h>
#include <absl/strings/strip.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <fstream>
#include <functional>
#include <iterator>
#include <limits>
#include <thread>

#include "engine/base/status.h"
#include "engine/base/text/json.h"
#include "engine/base/text/output_file.h"

namespace snug::core {
namespace {

constexpr const char* kStep = "step";
constexpr const char* kEvaluation = "evaluation";
constexpr const char* kChange = "change";

std::string MetricsJson(const char* kind, int64_t step, const Metrics& metrics,
                        const std::vector<std::pair<const char*, double>>& more) {
  Json json;
  json.Object().Key("kind").String(kind).Key("step").Number(step);
  for (const auto& [name, value] : metrics) json.Key(name).Number(value);
  for (const auto& [name, value] : more) json.Key(name).Number(value);
  json.End();
  return json.text();
}

// The kind and the step, which MetricsJson writes first; the line is left with what comes behind them. False for
// anything else.
bool TakeKindAndStep(absl::string_view* line, std::string* kind, int64_t* step) {
  if (!absl::ConsumePrefix(line, "{\"kind\": \"")) return false;
  const size_t end = line->find("\", \"step\": ");
  if (end == absl::string_view::npos) return false;
  *kind = std::string(line->substr(0, end));
  line->remove_prefix(end);
  absl::ConsumePrefix(line, "\", \"step\": ");
  const size_t digits = std::min(line->find_first_not_of("0123456789"), line->size());
  if (!absl::SimpleAtoi(line->substr(0, digits), step)) return false;
  line->remove_prefix(digits);
  return true;
}

// The numbers that are left of a line, by name. False for anything but what MetricsJson wrote, as a line cut short.
bool ParseNumbers(absl::string_view line, Metrics* metrics) {
  if (!absl::ConsumeSuffix(&line, "}")) return false;
  absl::ConsumePrefix(&line, ", ");
  for (const absl::string_view member : absl::StrSplit(line, ", ", absl::SkipEmpty())) {
    const std::vector<absl::string_view> parts = absl::StrSplit(member, absl::MaxSplits("\": ", 1));
    if (parts.size() != 2 || !absl::StartsWith(parts[0], "\"")) return false;
    double value = std::numeric_limits<double>::quiet_NaN();  // JSON has only null for a number that is not finite
    if (parts[1] != "null" && !absl::SimpleAtod(parts[1], &value)) return false;
    const std::string name(parts[0].substr(1));
    if (!MetricsFile::IsReserved(name)) metrics->emplace_back(name, value);
  }
  return true;
}

// How many bytes at the beginning of the file have the lines up to that step. A line that cannot be read stays where it
// is, unless it is the last and was cut short.
int64_t BytesUpTo(const std::string& path, int64_t step, std::vector<MetricsFile::Line>* kept) {
  std::ifstream file(path);
  std::string text;
  int64_t bytes = 0;
  while (std::getline(file, text) && !file.eof()) {  // at the end of the file no newline follows
    absl::string_view line = text;
    std::string kind;
    int64_t at = 0;
    Metrics metrics;
    if (TakeKindAndStep(&line, &kind, &at)) {
      if (at > step || (kind == kChange && at == step)) break;
      if (kind != kChange && ParseNumbers(line, &metrics)) {
        kept->push_back({kind == kStep ? MetricsFile::LineKind::kStep : MetricsFile::LineKind::kEvaluation, at,
                         std::move(metrics)});
      }
    }
    bytes += static_cast<int64_t>(text.size()) + 1;
  }
  return bytes;
}

struct flock WholeFile() {
  struct flock lock = {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  return lock;
}

// A program that was killed a moment ago holds its lock until the system is through with it, which takes a while where
// it had much memory.
bool WithPatience(const std::function<bool()>& succeeds) {
  constexpr std::chrono::milliseconds kPatience(3000), kBetween(20);
  const auto end = std::chrono::steady_clock::now() + kPatience;
  while (!succeeds()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(kBetween);
  }
  return true;
}

absl::Status IsTaken(const std::string& path) {
  return absl::InvalidArgumentError(
      absl::StrCat(path, ": another training is writing here: wait for its end, or give another --output"));
}

// Locks the file for as long as it is open, which the system ends with the program, however that ends: so no two
// trainings write one file, and who looks at it sees that the training is still there (MetricsFile::IsBeingWritten).
// Where the file system has no locks, there is none.
absl::Status LockWhileOpen(const std::string& path, int file) {
  const bool free = WithPatience([file] {
    struct flock lock = WholeFile();
    return fcntl(file, F_OFD_SETLK, &lock) == 0 || (errno != EAGAIN && errno != EACCES);
  });
  return free ? absl::OkStatus() : IsTaken(path);
}

}  // namespace

bool MetricsFile::IsReserved(absl::string_view metric) {
  constexpr absl::string_view kOwn[] = {"kind", "step", "epoch", "learning_rate", "seconds"};
  return std::find(std::begin(kOwn), std::end(kOwn), metric) != std::end(kOwn);
}

bool MetricsFile::IsBeingWritten(int file) {
  struct flock lock = WholeFile();
  return fcntl(file, F_OFD_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
}

absl::Status MetricsFile::CheckNobodyWrites(const std::string& path) {
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file < 0) return absl::OkStatus();  // nobody has begun here; or Open will say what is wrong
  const bool free = WithPatience([file] { return !IsBeingWritten(file); });
  close(file);
  return free ? absl::OkStatus() : IsTaken(path);
}

// The file is never replaced by another one: what is locked must stay what the name leads to.
absl::StatusOr<std::unique_ptr<MetricsFile>> MetricsFile::Open(const std::string& path, int64_t step,
                                                               std::vector<Line>* kept) {
  struct stat found;
  if (stat(path.c_str(), &found) == 0 && !S_ISREG(found.st_mode)) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": expected the name of a file, found a folder or a device of that name"));
  }
  std::FILE* const stream = std::fopen(path.c_str(), "ae");
  if (stream == nullptr) return absl::ErrnoToStatus(errno, absl::StrCat(path, ": cannot be written"));
  std::unique_ptr<MetricsFile> file(new MetricsFile(path, stream));
  SNUG_RETURN_IF_ERROR(LockWhileOpen(path, fileno(stream)));
  OutputFile::RemoveLeftovers(path);  // of earlier versions
  if (ftruncate(fileno(stream), step > 0 ? BytesUpTo(path, step, kept) : 0) != 0) {
    return absl::ErrnoToStatus(errno, absl::StrCat(path, ": cannot be written"));
  }
  return file;
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

absl::Status MetricsFile::Change(const OptionChange& change) {
  Json json;
  json.Object().Key("kind").String(kChange).Key("step").Number(change.step).Key("name").String(change.name);
  json.Key("before").String(change.before).Key("after").String(change.after).End();
  return Write(json.text());
}

absl::Status MetricsFile::Evaluation(const Trainer::EvaluationReport& report) {
  return Write(
      MetricsJson(kEvaluation, report.step, report.evaluation.metrics, {{"seconds", report.evaluation.seconds}}));
}

}  // namespace snug::core
