#include "engine/train/progress.h"

#include <absl/strings/numbers.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/str_format.h>
#include <absl/strings/str_join.h>

#include <algorithm>
#include <cmath>

#include "engine/base/status.h"
#include "proto/train.pb.h"

namespace snug::core {
namespace {

constexpr absl::string_view kBest = "best", kPlateau = "plateau", kRateFactor = "plateau.factor";

bool IsBetter(absl::string_view metric, double value, double than) {
  return metric == "loss" ? value < than : value > than;
}

// Every bit of a number, as text.
std::string Exact(double value) { return absl::StrFormat("%.17g", value); }

template <class T, class Parse>
absl::Status ReadNumber(const std::map<std::string, std::string>& metadata, const std::string& key, Parse parse,
                        T* to) {
  const auto found = metadata.find(key);
  if (found != metadata.end() && parse(found->second, to)) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat("metadata \"", key, "\": expected a number, found ",
                                          found == metadata.end() ? "none" : absl::StrCat("\"", found->second, "\"")));
}

bool ParseDouble(const std::string& text, double* value) { return absl::SimpleAtod(text, value); }
bool ParseInteger(const std::string& text, int64_t* value) { return absl::SimpleAtoi(text, value); }

}  // namespace

Progress::Progress(const proto::Training& training) {
  best_.metric = training.best().metric();
  patience_ = training.best().patience();
  if (!training.schedule().has_plateau()) return;
  const proto::PlateauRate& plateau = training.schedule().plateau();
  plateau_.metric = plateau.metric();
  plateau_patience_ = plateau.patience();
  fall_ = plateau.factor();
  least_factor_ = plateau.final();
}

absl::Status Progress::CheckMetric(absl::string_view option, const Leader& leader,
                                   absl::Span<const std::string> metrics) {
  if (!leader.followed() || std::find(metrics.begin(), metrics.end(), leader.metric) != metrics.end()) {
    return absl::OkStatus();
  }
  if (metrics.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(option, ": expected data to evaluate with, found none: nothing is held back"));
  }
  return absl::InvalidArgumentError(absl::StrCat(option, ": expected a metric of the evaluation, ",
                                                 absl::StrJoin(metrics, " or "), ", found \"", leader.metric, "\""));
}

absl::Status Progress::Check(absl::Span<const std::string> metrics) const {
  if (patience_ > 0 && !best_.followed()) {
    return absl::InvalidArgumentError(
        absl::StrCat("training.best.patience: expected training.best.metric as well, which says what is better: ",
                     absl::StrJoin(metrics, " or ")));
  }
  SNUG_RETURN_IF_ERROR(CheckMetric("training.best.metric", best_, metrics));
  return CheckMetric("training.schedule.plateau.metric", plateau_, metrics);
}

bool Progress::Leader::Consider(int64_t at, const Metrics& metrics) {
  const auto found = std::find_if(metrics.begin(), metrics.end(), [&](const auto& one) { return one.first == metric; });
  const bool better = found != metrics.end() && !std::isnan(found->second) &&
                      (!value.has_value() || IsBetter(metric, found->second, *value));
  if (better) {
    value = found->second;
    step = at;
  }
  waited = better ? 0 : waited + 1;
  return better;
}

void Progress::Leader::BeginAnew(bool best_counts) {
  waited = 0;
  if (best_counts) return;
  value.reset();
  step = 0;
}

void Progress::BeginAnew(bool best_counts) {
  best_.BeginAnew(best_counts);
  plateau_.BeginAnew(best_counts);
}

Progress::Verdict Progress::Evaluated(int64_t step, const Metrics& metrics) {
  Verdict verdict;
  if (best_.followed()) verdict.best = best_.Consider(step, metrics);
  if (!plateau_.followed()) return verdict;
  plateau_.Consider(step, metrics);
  if (plateau_.waited < plateau_patience_) return verdict;
  plateau_.waited = 0;
  const double before = rate_factor_;
  rate_factor_ = std::min(before, std::max(before * fall_, least_factor_));
  verdict.rate_fell = rate_factor_ < before;
  return verdict;
}

void Progress::Leader::Write(absl::string_view prefix, std::map<std::string, std::string>* metadata) const {
  if (!followed()) return;
  (*metadata)[absl::StrCat(prefix, ".metric")] = metric;
  (*metadata)[absl::StrCat(prefix, ".waited")] = absl::StrCat(waited);
  if (!value.has_value()) return;
  (*metadata)[absl::StrCat(prefix, ".value")] = Exact(*value);
  (*metadata)[absl::StrCat(prefix, ".step")] = absl::StrCat(step);
}

std::map<std::string, std::string> Progress::ToMetadata() const {
  std::map<std::string, std::string> metadata;
  best_.Write(kBest, &metadata);
  plateau_.Write(kPlateau, &metadata);
  if (plateau_.followed()) metadata[std::string(kRateFactor)] = Exact(rate_factor_);
  return metadata;
}

bool Progress::Leader::WasKept(absl::string_view prefix, const std::map<std::string, std::string>& metadata) const {
  const auto kept = metadata.find(absl::StrCat(prefix, ".metric"));
  return followed() && kept != metadata.end() && kept->second == metric;
}

bool Progress::WasKept(const std::map<std::string, std::string>& metadata) const {
  return best_.WasKept(kBest, metadata) || plateau_.WasKept(kPlateau, metadata);
}

absl::Status Progress::Leader::Read(absl::string_view prefix, const std::map<std::string, std::string>& metadata) {
  if (!WasKept(prefix, metadata)) return absl::OkStatus();
  SNUG_RETURN_IF_ERROR(ReadNumber(metadata, absl::StrCat(prefix, ".waited"), ParseInteger, &waited));
  const std::string value_key = absl::StrCat(prefix, ".value");
  if (!metadata.contains(value_key)) return absl::OkStatus();
  double number = 0;
  SNUG_RETURN_IF_ERROR(ReadNumber(metadata, value_key, ParseDouble, &number));
  SNUG_RETURN_IF_ERROR(ReadNumber(metadata, absl::StrCat(prefix, ".step"), ParseInteger, &step));
  value = number;
  return absl::OkStatus();
}

absl::Status Progress::Restore(const std::map<std::string, std::string>& metadata) {
  Progress restored = *this;
  SNUG_RETURN_IF_ERROR(restored.best_.Read(kBest, metadata));
  SNUG_RETURN_IF_ERROR(restored.plateau_.Read(kPlateau, metadata));
  if (plateau_.followed() && metadata.contains(std::string(kRateFactor))) {
    SNUG_RETURN_IF_ERROR(ReadNumber(metadata, std::string(kRateFactor), ParseDouble, &restored.rate_factor_));
  }
  *this = std::move(restored);
  return absl::OkStatus();
}

}  // namespace snug::core
