#include "engine/train/metrics_line.h"

#include <cmath>
#include <limits>

#include "engine/base/status.h"
#include "engine/base/text/utf8.h"
#include "engine/train/checkpoint/json_reader.h"

namespace snug::core {
namespace {

constexpr size_t kMostMetrics = 1000, kLongestName = 200;
constexpr double kMostSteps = 9e15;  // whole numbers up to here are exact as a double

// A number; NaN for null, which is how it is written. Anything else is passed over and gives nothing.
absl::StatusOr<std::optional<double>> NumberOrNothing(checkpoint::JsonReader& json) {
  const char next = json.Peek();
  if (next == '-' || (next >= '0' && next <= '9')) {
    SNUG_ASSIGN_OR_RETURN(const double value, json.Number());
    return std::optional<double>(value);
  }
  SNUG_RETURN_IF_ERROR(json.Skip());
  if (next == 'n') return std::optional<double>(std::numeric_limits<double>::quiet_NaN());
  return std::optional<double>();
}

absl::Status Parse(absl::string_view text, MetricsLine* line) {
  checkpoint::JsonReader json(text);
  SNUG_RETURN_IF_ERROR(json.BeginObject());
  bool has_kind = false, has_step = false;
  std::string key;
  for (;;) {
    SNUG_ASSIGN_OR_RETURN(const bool more, json.NextKey(&key));
    if (!more) break;
    if (key == "kind") {
      SNUG_ASSIGN_OR_RETURN(const std::string kind, json.String());
      line->evaluation = kind == "evaluation";
      line->change = kind == "change";
      has_kind = line->evaluation || line->change || kind == "step";
      continue;
    }
    SNUG_ASSIGN_OR_RETURN(const std::optional<double> value, NumberOrNothing(json));
    if (!value.has_value()) continue;
    if (key == "step" && has_step) continue;  // of a metric of that name, in files of earlier versions
    if (key == "step" || key == "epoch") {
      if (!(*value >= 0 && *value < kMostSteps)) return json.Error("expected a number of steps");
      (key == "step" ? line->step : line->epoch) = static_cast<int64_t>(*value);
      has_step = has_step || key == "step";
    } else if (key == "learning_rate") {
      line->rate = *value;
    } else if (key == "seconds") {
      line->seconds = *value;
    } else if (key == "waited") {
      line->waited = *value;
    } else if (line->metrics.size() < kMostMetrics && key.size() <= kLongestName) {
      line->metrics.emplace_back(key, *value);
    }
  }
  SNUG_RETURN_IF_ERROR(json.End());
  return has_kind && has_step ? absl::OkStatus() : json.Error("expected a kind and a step");
}

}  // namespace

std::optional<MetricsLine> ParseMetricsLine(absl::string_view text) {
  MetricsLine line;
  if (!IsUtf8(text)) return std::nullopt;
  if (!Parse(text, &line).ok()) return std::nullopt;
  return line;
}

}  // namespace snug::core
