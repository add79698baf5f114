#include "engine/train/metrics_file.h"

#include <absl/strings/str_cat.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <iterator>
#include <optional>

#include "engine/base/status.h"
#include "engine/base/text/json.h"
#include "engine/base/text/output_file.h"
#include "engine/train/metrics_line.h"
#include "engine/train/with_patience.h"

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

// How many bytes at the beginning of the file have the lines up to that step. A line that cannot be read stays where it
// is, unless it is the last and was cut short.
int64_t BytesUpTo(const std::string& path, int64_t step, std::vector<MetricsFile::Line>* kept) {
  std::ifstream file(path);
  std::string text;
  int64_t bytes = 0;
  while (std::getline(file, text) && !file.eof()) {  // at the end of the file no newline follows
    if (std::optional<MetricsLine> line = ParseMetricsLine(text); line.has_value()) {
      if (line->step > step || (line->change && line->step == step)) break;
      if (!line->change) {
        const auto kind = line->evaluation ? MetricsFile::LineKind::kEvaluation : MetricsFile::LineKind::kStep;
        kept->push_back({kind, line->step, std::move(line->metrics)});
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
  constexpr absl::string_view kOwn[] = {"kind", "step", "epoch", "learning_rate", "seconds", "waited"};
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
  return Write(MetricsJson(kStep, report.step, report.metrics,
                           {{"epoch", static_cast<double>(report.epoch)},
                            {"learning_rate", report.rate},
                            {"seconds", report.seconds()},
                            {"waited", report.waited_seconds()}}));
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
