#include "engine/train/progress.h"

#include <absl/strings/numbers.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/str_format.h>
#include <absl/strings/str_join.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "engine/base/status.h"
#include "proto/train.pb.h"

namespace snug::core {
namespace {

constexpr absl::string_view kBest = "best", kPlateau = "plateau", kRateFactor = "plateau.factor";

bool IsBetter(Better better, double value, double than) {
  return better == Better::kLess ? value < than : value > than;
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

Progress::Progress(const proto::Training& training, std::vector<KnownMetric> metrics) : metrics_(std::move(metrics)) {
  best_ = Follow(training.best().metric());
  patience_ = training.best().patience();
  if (!training.schedule().has_plateau()) return;
  const proto::PlateauRate& plateau = training.schedule().plateau();
  plateau_ = Follow(plateau.metric());
  plateau_patience_ = plateau.patience();
  fall_ = plateau.factor();
  least_factor_ = plateau.final();
}

Progress::Leader Progress::Follow(const std::string& metric) {
  const FollowedMetric followed = ParseFollowedMetric(metric);
  Leader leader{.metric = followed.name, .better = followed.better.value_or(Better::kUnknown)};
  for (KnownMetric& known : metrics_) {
    if (known.name != followed.name) continue;
    if (followed.better.has_value()) known.better = *followed.better;
    leader.better = known.better;
  }
  return leader;
}

std::string Progress::NamesOfMetrics() const {
  return absl::StrJoin(metrics_, " or ",
                       [](std::string* out, const KnownMetric& one) { absl::StrAppend(out, one.name); });
}

absl::Status Progress::CheckMetric(absl::string_view option, const Leader& leader, absl::string_view missing) const {
  if (!leader.followed()) return absl::OkStatus();
  if (metrics_.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(option, ": expected data to evaluate with, found none: nothing is held back"));
  }
  const bool there =
      std::any_of(metrics_.begin(), metrics_.end(), [&](const KnownMetric& one) { return one.name == leader.metric; });
  if (!there) {
    return absl::InvalidArgumentError(absl::StrCat(option, ": expected a metric of the evaluation, ", NamesOfMetrics(),
                                                   ", found \"", leader.metric, "\"", missing.empty() ? "" : "; ",
                                                   missing));
  }
  if (leader.better != Better::kUnknown) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      option, ": of \"", leader.metric,
      "\" it is not known whether the least or the most is best, as no loss or accuracy makes it: expected ",
      leader.metric, ":least or ", leader.metric, ":most"));
}

absl::Status Progress::Check(absl::string_view missing) const {
  if (patience_ > 0 && !best_.followed()) {
    return absl::InvalidArgumentError(
        absl::StrCat("training.best.patience: expected training.best.metric as well, which says what is better: ",
                     NamesOfMetrics()));
  }
  SNUG_RETURN_IF_ERROR(CheckMetric("training.best.metric", best_, missing));
  return CheckMetric("training.schedule.plateau.metric", plateau_, missing);
}

bool Progress::Leader::Consider(int64_t at, const Metrics& metrics) {
  const auto found = std::find_if(metrics.begin(), metrics.end(), [&](const auto& one) { return one.first == metric; });
  const bool leads = found != metrics.end() && !std::isnan(found->second) &&
                     (!value.has_value() || IsBetter(better, found->second, *value));
  if (leads) {
    value = found->second;
    step = at;
  }
  waited = leads ? 0 : waited + 1;
  return leads;
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
  (*metadata)[absl::StrCat(prefix, ".better")] = Name(better);
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
  if (!followed() || kept == metadata.end() || kept->second != metric) return false;
  // Earlier versions took the most of all but the loss for the best, and said nothing of it.
  const auto direction = metadata.find(absl::StrCat(prefix, ".better"));
  return direction != metadata.end() ? direction->second == Name(better)
                                     : better == (metric == "loss" ? Better::kLess : Better::kMore);
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
