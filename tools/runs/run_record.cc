#include "tools/runs/run_record.h"

#include <absl/strings/str_cat.h>

#include <memory>

#include "engine/base/status.h"
#include "engine/base/text/json.h"
#include "engine/base/text/output_file.h"
#include "engine/base/text/utf8.h"
#include "engine/train/checkpoint/json_reader.h"
#include "tools/runs/small_file.h"

namespace snug::core::runs {
namespace {

constexpr int64_t kMostRecordBytes = 1 << 20;
constexpr size_t kMostOptions = 1000;                 // many more than there are flags
constexpr size_t kMostMetrics = 1000;                 // as many as are read of a line of metrics.jsonl
constexpr int64_t kLargestNumber = int64_t{1} << 53;  // as large as JavaScript counts; sums of two fit as well

absl::Status ReadOptions(checkpoint::JsonReader& json, std::vector<std::pair<std::string, std::string>>* options) {
  SNUG_RETURN_IF_ERROR(json.BeginObject());
  std::string key;
  for (;;) {
    SNUG_ASSIGN_OR_RETURN(const bool more, json.NextKey(&key));
    if (!more) return absl::OkStatus();
    if (options->size() == kMostOptions) return json.Error(absl::StrCat("expected at most ", kMostOptions, " options"));
    SNUG_ASSIGN_OR_RETURN(std::string value, json.String());
    options->emplace_back(key, std::move(value));
  }
}

absl::Status ReadMetrics(checkpoint::JsonReader& json, std::vector<KnownMetric>* metrics) {
  SNUG_RETURN_IF_ERROR(json.BeginObject());
  std::string key;
  for (;;) {
    SNUG_ASSIGN_OR_RETURN(const bool more, json.NextKey(&key));
    if (!more) return absl::OkStatus();
    if (metrics->size() == kMostMetrics) return json.Error(absl::StrCat("expected at most ", kMostMetrics, " metrics"));
    SNUG_ASSIGN_OR_RETURN(const std::string better, json.String());
    metrics->push_back({key, ParseBetter(better).value_or(Better::kUnknown)});
  }
}

}  // namespace

Better RunRecord::BetterOf(const std::string& metric) const {
  for (const KnownMetric& one : metrics) {
    if (one.name == metric) return one.better;
  }
  if (metric == "loss") return Better::kLess;
  return metric == "accuracy" ? Better::kMore : Better::kUnknown;
}

std::string RunRecord::ToJson() const {
  Json json;
  json.Object().Key("network").String(network).Key("state").String(state);
  if (!error.empty()) json.Key("error").String(error);
  json.Key("batch").Number(batch).Key("steps").Number(steps).Key("steps_per_epoch").Number(steps_per_epoch);
  json.Key("state_bytes").Number(state_bytes).Key("step_bytes").Number(step_bytes);
  json.Key("options").Object();
  for (const auto& [name, value] : options) json.Key(name).String(value);
  json.End();
  if (!changes.empty()) {
    json.Key("changes");
    WriteChanges(changes, json);
  }
  if (!metrics.empty()) {
    json.Key("metrics").Object();
    for (const KnownMetric& one : metrics) json.Key(one.name).String(Name(one.better));
    json.End();
  }
  json.End();
  return json.text() + "\n";
}

absl::StatusOr<RunRecord> RunRecord::Parse(absl::string_view text) {
  if (!IsUtf8(text)) return absl::InvalidArgumentError("expected UTF-8, found bytes that are none");
  RunRecord record;
  const std::pair<absl::string_view, std::string*> texts[] = {
      {"network", &record.network}, {"state", &record.state}, {"error", &record.error}};
  const std::pair<absl::string_view, int64_t*> numbers[] = {{"batch", &record.batch},
                                                            {"steps", &record.steps},
                                                            {"steps_per_epoch", &record.steps_per_epoch},
                                                            {"state_bytes", &record.state_bytes},
                                                            {"step_bytes", &record.step_bytes}};
  checkpoint::JsonReader json(text);
  SNUG_RETURN_IF_ERROR(json.BeginObject());
  std::string key;
  for (;;) {
    SNUG_ASSIGN_OR_RETURN(const bool more, json.NextKey(&key));
    if (!more) break;
    bool known = key == "options" || key == "changes" || key == "metrics";
    if (key == "options") SNUG_RETURN_IF_ERROR(ReadOptions(json, &record.options));
    if (key == "changes") {
      SNUG_ASSIGN_OR_RETURN(record.changes, ReadChanges(json));
    }
    if (key == "metrics") SNUG_RETURN_IF_ERROR(ReadMetrics(json, &record.metrics));
    for (const auto& [name, to] : texts) {
      if (name != key) continue;
      SNUG_ASSIGN_OR_RETURN(*to, json.String());
      known = true;
    }
    for (const auto& [name, to] : numbers) {
      if (name != key) continue;
      SNUG_ASSIGN_OR_RETURN(*to, json.Integer());
      if (*to > kLargestNumber) return json.Error(absl::StrCat("expected a number up to 2^53, found ", *to));
      known = true;
    }
    if (!known) SNUG_RETURN_IF_ERROR(json.Skip());
  }
  SNUG_RETURN_IF_ERROR(json.End());
  return record;
}

absl::Status RunRecord::WriteTo(const RunFolder& folder) const {
  OutputFile::RemoveLeftovers(folder.record());
  SNUG_ASSIGN_OR_RETURN(const std::unique_ptr<OutputFile> file, OutputFile::Create(folder.record()));
  file->Write(ToJson());
  return file->Finish();
}

absl::StatusOr<RunRecord> RunRecord::ReadFrom(const RunFolder& folder) {
  SNUG_ASSIGN_OR_RETURN(const std::string text, ReadSmallFile(folder.record(), kMostRecordBytes));
  absl::StatusOr<RunRecord> record = Parse(text);
  if (!record.ok()) return Annotate(record.status(), folder.record());
  return record;
}

}  // namespace snug::core::runs
