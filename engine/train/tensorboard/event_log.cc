#include "engine/train/tensorboard/event_log.h"

#include <absl/strings/match.h>
#include <absl/strings/numbers.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/str_format.h>
#include <absl/strings/str_split.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <filesystem>
#include <system_error>
#include <vector>

#include "engine/base/status.h"
#include "engine/base/text/byte_size.h"
#include "engine/train/tensorboard/graph_def.h"
#include "engine/train/tensorboard/histogram.h"
#include "engine/train/tensorboard/wire.h"

namespace snug::core::tensorboard {
namespace {

// Numbers of fields in tensorflow/core/util/event.proto and tensorflow/core/framework/{summary,tensor}.proto.
constexpr int kEventTime = 1, kEventStep = 2, kEventVersion = 3, kEventGraph = 4, kEventSummary = 5, kEventSession = 7;
constexpr int kSessionStatus = 1;
constexpr int64_t kSessionStart = 1;
constexpr int kSummaryValue = 1, kValueTag = 1, kValueNumber = 2, kValueHistogram = 5, kValueTensor = 8,
              kValueMetadata = 9;
constexpr int kHistogramMin = 1, kHistogramMax = 2, kHistogramCount = 3, kHistogramSum = 4, kHistogramSquares = 5,
              kHistogramLimits = 6, kHistogramCounts = 7;
constexpr int kTensorType = 1, kTensorShape = 2, kTensorStrings = 8, kTensorDim = 2, kTensorDimSize = 1;
constexpr int64_t kStringType = 7;
constexpr int kMetadataPlugin = 1, kPluginName = 1;

constexpr absl::string_view kFilePrefix = "events.out.tfevents.";

double WallTime() { return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count(); }

Wire NewEvent(int64_t step) {
  Wire event;
  event.Double(kEventTime, WallTime()).Integer(kEventStep, step);
  return event;
}

void AddNumber(absl::string_view tag, double value, Wire* summary) {
  summary->Message(kSummaryValue, Wire().Bytes(kValueTag, tag).Float(kValueNumber, static_cast<float>(value)));
}

void AddHistogram(absl::string_view tag, const Histogram& h, Wire* summary) {
  Wire histogram;
  histogram.Double(kHistogramMin, h.min).Double(kHistogramMax, h.max);
  histogram.Double(kHistogramCount, static_cast<double>(h.count));
  histogram.Double(kHistogramSum, h.sum).Double(kHistogramSquares, h.sum_squares);
  histogram.Doubles(kHistogramLimits, h.limits).Doubles(kHistogramCounts, h.counts);
  summary->Message(kSummaryValue, Wire().Bytes(kValueTag, tag).Message(kValueHistogram, histogram));
}

void AddText(absl::string_view tag, absl::string_view markdown, Wire* summary) {
  Wire tensor;
  tensor.Integer(kTensorType, kStringType);
  tensor.Message(kTensorShape, Wire().Message(kTensorDim, Wire().Integer(kTensorDimSize, 1)));
  tensor.Bytes(kTensorStrings, markdown);
  const Wire metadata = Wire().Message(kMetadataPlugin, Wire().Bytes(kPluginName, "text"));
  summary->Message(kSummaryValue,
                   Wire().Bytes(kValueTag, tag).Message(kValueTensor, tensor).Message(kValueMetadata, metadata));
}

constexpr int64_t kMostSeconds = 9'999'999'999;  // of ten digits, as all file names have

// TensorBoard reads the files of a folder in the sequence of their names, which begin with seconds: later ones than
// those of every file that is there, even where two trainings begin in the same second.
absl::StatusOr<std::string> NewFileIn(const std::string& folder) {
  auto seconds = static_cast<int64_t>(WallTime());
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) return absl::ErrnoToStatus(error.value(), absl::StrCat(folder, ": cannot be made"));
  for (std::filesystem::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    int64_t taken = 0;
    if (!absl::StartsWith(name, kFilePrefix)) continue;
    const std::vector<std::string> parts = absl::StrSplit(name.substr(kFilePrefix.size()), '.');
    if (absl::SimpleAtoi(parts[0], &taken) && taken < kMostSeconds) seconds = std::max(seconds, taken + 1);
  }
  if (error) return absl::ErrnoToStatus(error.value(), absl::StrCat(folder, ": cannot be read"));
  std::array<char, 256> host = {};
  if (gethostname(host.data(), host.size() - 1) != 0) host[0] = '\0';
  return absl::StrFormat("%s/%s%010d.%s.%d", folder, kFilePrefix, seconds, host[0] == '\0' ? "host" : host.data(),
                         getpid());
}

std::vector<std::pair<std::string, int64_t>> PlannedBytes(const Trainer& trainer) {
  const Session& session = trainer.session();
  return {{"variables", session.state_bytes()},
          {"step", session.step_bytes()},
          {"batches read ahead", trainer.staging_bytes()},
          {"uploaded ahead", session.upload_bytes()}};
}

}  // namespace

std::vector<KeptGradient> KeptGradients(const Compiled& compiled) {
  std::vector<KeptGradient> kept;
  for (const Variable& variable : compiled.graph.variables()) {
    if (variable.role != VariableRole::kParameter) continue;
    const std::string name = absl::StrCat("d(", variable.name, ")");
    for (const Endpoint& output : compiled.executable.outputs) {
      if (output.name == name) kept.push_back({variable.name, name, output.type.size_bytes()});
    }
  }
  return kept;
}

absl::StatusOr<std::unique_ptr<EventLog>> EventLog::Open(const std::string& folder, Trainer& trainer,
                                                         const proto::Network& network) {
  SNUG_ASSIGN_OR_RETURN(std::string path, NewFileIn(folder));
  SNUG_ASSIGN_OR_RETURN(std::unique_ptr<RecordFile> file, RecordFile::Create(path));
  std::unique_ptr<EventLog> log(new EventLog(std::move(path), std::move(file), trainer));
  SNUG_RETURN_IF_ERROR(log->Begin(network));
  return log;
}

absl::Status EventLog::Begin(const proto::Network& network) {
  SNUG_RETURN_IF_ERROR(file_->Write(NewEvent(0).Bytes(kEventVersion, "brain.Event:2").bytes()));
  // What TensorBoard knows of this step and later ones is not of this training any more.
  const int64_t step = trainer_.step();
  const Wire started = Wire().Integer(kSessionStatus, kSessionStart);
  SNUG_RETURN_IF_ERROR(file_->Write(NewEvent(step == 0 ? 0 : step + 1).Message(kEventSession, started).bytes()));
  const Graph& graph = trainer_.session().compiled().graph;
  SNUG_RETURN_IF_ERROR(file_->Write(NewEvent(step).Bytes(kEventGraph, GraphDefOf(network, graph)).bytes()));
  Wire memory;
  std::string table = "| planned | bytes | |\n|---|---:|---:|\n";
  for (const auto& [name, bytes] : PlannedBytes(trainer_)) {
    AddNumber(absl::StrCat("memory/", name), static_cast<double>(bytes), &memory);
    absl::StrAppend(&table, "| ", name, " | ", bytes, " | ", ByteSize(bytes), " |\n");
  }
  AddText("memory", table, &memory);
  return file_->Write(NewEvent(step).Message(kEventSummary, memory).bytes());
}

absl::Status EventLog::Step(const Trainer::StepReport& report) {
  Wire summary;
  for (const auto& [name, value] : report.metrics) AddNumber(absl::StrCat(name, "/training"), value, &summary);
  AddNumber("rate/learning_rate", report.rate, &summary);
  AddNumber("rate/samples_per_second", static_cast<double>(trainer_.batch()) / report.seconds(), &summary);
  AddNumber("rate/waited_for_data", report.waited_seconds() / report.seconds(), &summary);
  if (report.evaluates) SNUG_RETURN_IF_ERROR(AddHistograms(&summary));
  return file_->Write(NewEvent(report.step).Message(kEventSummary, summary).bytes());
}

absl::Status EventLog::AddHistograms(Wire* summary) {
  Session& session = trainer_.session();
  for (const Variable& variable : session.compiled().graph.variables()) {
    if (variable.role != VariableRole::kParameter) continue;
    SNUG_ASSIGN_OR_RETURN(const std::vector<double> numbers, session.GetVariable(variable.name));
    AddHistogram(absl::StrCat("parameters/", variable.name), HistogramOf(numbers), summary);
  }
  for (const KeptGradient& kept : KeptGradients(session.compiled())) {
    SNUG_ASSIGN_OR_RETURN(const std::vector<double> numbers, session.Fetch(kept.output));
    AddHistogram(absl::StrCat("gradients/", kept.parameter), HistogramOf(numbers), summary);
  }
  return absl::OkStatus();
}

absl::Status EventLog::Evaluation(const Trainer::EvaluationReport& report) {
  Wire summary;
  for (const auto& [name, value] : report.evaluation.metrics) {
    AddNumber(absl::StrCat(name, "/evaluation"), value, &summary);
  }
  return file_->Write(NewEvent(report.step).Message(kEventSummary, summary).bytes());
}

}  // namespace snug::core::tensorboard
