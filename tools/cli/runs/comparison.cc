#include "tools/cli/runs/comparison.h"

#include <absl/strings/str_cat.h>
#include <absl/strings/str_format.h>
#include <absl/strings/str_join.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "engine/base/text/byte_size.h"
#include "engine/base/text/printable.h"

namespace snug::core::cli {
namespace {

using runs::RunFollower;
using runs::ThinCurve;

constexpr size_t kPointsAtTheEnd = 25;

std::string ShortNumber(double value) { return absl::StrFormat("%.5g", value); }

// The names of the metrics that any of the runs has, in the sequence in which they first come.
std::vector<std::string> MetricsOfAll(const std::vector<ComparedRun>& all, RunFollower::Kind kind) {
  std::vector<std::string> names;
  for (const ComparedRun& one : all) {
    for (const RunFollower::Curve& curve : one.run->curves()) {
      if (curve.kind == kind && std::find(names.begin(), names.end(), curve.metric) == names.end()) {
        names.push_back(curve.metric);
      }
    }
  }
  return names;
}

// Letters of a text, not bytes: what follows the first byte of one is 10xxxxxx.
size_t LettersIn(const std::string& text) {
  return static_cast<size_t>(std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; }));
}

// Columns as wide as their widest cell; numbers end where the column does. What others have written into the files of a
// run can neither give the terminal orders nor break the table.
std::string TextTable(std::vector<std::vector<std::string>> rows, const std::vector<bool>& right) {
  std::vector<size_t> widths(right.size(), 0);
  for (auto& row : rows) {
    for (size_t i = 0; i < row.size(); ++i) {
      row[i] = Printable(row[i]);
      widths[i] = std::max(widths[i], LettersIn(row[i]));
    }
  }
  std::string text;
  for (const auto& row : rows) {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i) {
      const std::string blanks(widths[i] - LettersIn(row[i]), ' ');
      absl::StrAppend(&line, i == 0 ? "" : "  ", right[i] ? blanks + row[i] : row[i] + blanks);
    }
    line.resize(line.find_last_not_of(' ') + 1);
    absl::StrAppend(&text, line, "\n");
  }
  return text;
}

double StepsRead(const RunFollower& run) {
  const RunFollower::Curve* const rates = run.Find(RunFollower::Kind::kLearningRate);
  return rates == nullptr ? 0 : static_cast<double>(rates->points.added());
}

}  // namespace

std::optional<double> EndOf(const ThinCurve& curve) {
  double sum = 0, count = 0;
  const std::vector<ThinCurve::Point>& points = curve.points();
  for (size_t i = points.size() - std::min(points.size(), kPointsAtTheEnd); i < points.size(); ++i) {
    if (points[i].finite == 0) continue;
    sum += points[i].mean * static_cast<double>(points[i].finite);
    count += static_cast<double>(points[i].finite);
  }
  if (count == 0) return std::nullopt;
  return sum / count;
}

std::vector<OptionChange> ChangesOf(const RunFollower& run) {
  return run.record().has_value() ? run.record()->changes : std::vector<OptionChange>();
}

Comparison::Comparison(std::vector<ComparedRun> compared) : runs_(std::move(compared)), rows_(runs_.size()) {
  std::vector<std::string> names, states, steps;
  std::vector<std::optional<double>> none(runs_.size());
  for (const ComparedRun& one : runs_) {
    names.push_back(one.name);
    states.emplace_back(runs::Name(one.run->state()));
    const int64_t all = one.run->record().has_value() ? one.run->record()->steps : 0;
    steps.push_back(all > one.run->step() ? absl::StrCat(one.run->step(), " of ", all) : absl::StrCat(one.run->step()));
  }
  AddColumn("run", Better::kUnknown, none, names);
  AddColumn("state", Better::kUnknown, none, states);
  AddColumn("steps", Better::kUnknown, none, steps);
  columns_.back().number = true;
  for (const RunFollower::Kind kind : {RunFollower::Kind::kTraining, RunFollower::Kind::kEvaluation}) {
    for (const std::string& metric : MetricsOfAll(runs_, kind)) AddMetric(metric, kind);
  }
  std::vector<std::optional<double>> speeds(runs_.size());
  std::vector<std::string> speed_texts(runs_.size()), memory(runs_.size());
  for (size_t i = 0; i < runs_.size(); ++i) {
    const RunFollower& run = *runs_[i].run;
    if (!run.record().has_value()) continue;
    const runs::RunRecord& record = *run.record();
    memory[i] = ByteSize(record.state_bytes + record.step_bytes);
    if (run.training_seconds() <= 0) continue;
    speeds[i] = static_cast<double>(record.batch) * StepsRead(run) / run.training_seconds();
    speed_texts[i] = absl::StrFormat("%.0f", *speeds[i]);
  }
  AddColumn("samples/s", Better::kMore, speeds, speed_texts);
  AddColumn("memory", Better::kUnknown, none, memory);
  columns_.back().number = true;
  FindOptions();
}

void Comparison::AddColumn(const std::string& title, Better better, const std::vector<std::optional<double>>& values,
                           const std::vector<std::string>& texts) {
  columns_.push_back({.title = title, .number = better != Better::kUnknown, .better = better});
  std::optional<double> best, worst;
  for (const std::optional<double>& value : values) {
    if (!value.has_value() || better == Better::kUnknown) continue;
    const bool first = !best.has_value();
    if (first || (better == Better::kLess ? *value < *best : *value > *best)) best = value;
    if (first || (better == Better::kLess ? *value > *worst : *value < *worst)) worst = value;
  }
  const bool differ = best.has_value() && *best != *worst;
  for (size_t i = 0; i < rows_.size(); ++i) {
    rows_[i].push_back({.text = texts[i], .best = differ && values[i] == best});
  }
}

void Comparison::AddMetric(const std::string& metric, RunFollower::Kind kind) {
  const Better better = BetterOf(metric);
  std::vector<std::optional<double>> last(runs_.size()), best(runs_.size());
  std::vector<std::string> last_texts(runs_.size()), best_texts(runs_.size());
  for (size_t i = 0; i < runs_.size(); ++i) {
    const RunFollower::Curve* const curve = runs_[i].run->Find(kind, metric);
    if (curve == nullptr) continue;
    last[i] = kind == RunFollower::Kind::kTraining ? EndOf(curve->points) : curve->points.last();
    if (last[i].has_value()) last_texts[i] = ShortNumber(*last[i]);
    if (last[i].has_value() && !std::isfinite(*last[i])) last[i].reset();
    const std::optional<ThinCurve::Extreme> extreme =
        better == Better::kLess ? curve->points.least() : curve->points.most();
    if (!extreme.has_value()) continue;
    best[i] = extreme->value;
    best_texts[i] = absl::StrFormat("%s at %d", ShortNumber(extreme->value), extreme->step);
  }
  const bool training = kind == RunFollower::Kind::kTraining;
  AddColumn(training ? absl::StrCat("training ", metric) : metric, better, last, last_texts);
  columns_.back().number = true;
  columns_.back().metric = metric;
  if (training || better == Better::kUnknown) return;
  AddColumn(absl::StrCat("best ", metric), better, best, best_texts);
  columns_.back().metric = metric;
}

Better Comparison::BetterOf(const std::string& metric) const {
  std::optional<Better> found;
  for (const ComparedRun& one : runs_) {
    const bool there = one.run->Find(RunFollower::Kind::kTraining, metric) != nullptr ||
                       one.run->Find(RunFollower::Kind::kEvaluation, metric) != nullptr;
    if (!there) continue;
    const Better better = one.run->record().value_or(runs::RunRecord()).BetterOf(metric);
    if (found.has_value() && *found != better) return Better::kUnknown;
    found = better;
  }
  return found.value_or(Better::kUnknown);
}

bool Comparison::IsForPageAlone(const std::string& metric) const {
  if (metric.empty()) return false;
  return std::none_of(runs_.begin(), runs_.end(), [&](const ComparedRun& one) {
    if (one.run->Find(RunFollower::Kind::kTraining, metric) != nullptr) return true;
    const std::vector<std::pair<std::string, std::string>> options =
        one.run->record().value_or(runs::RunRecord()).options;
    return std::any_of(options.begin(), options.end(), [&](const auto& option) {
      return (option.first == "best-metric" || option.first == "schedule-plateau-metric") &&
             ParseFollowedMetric(option.second).name == metric;
    });
  });
}

std::string Comparison::WhatIsBest(bool for_page) const {
  std::vector<std::string> parts;
  for (const Better better : {Better::kLess, Better::kMore}) {
    std::vector<std::string> names;
    for (const Column& column : columns_) {
      if (!for_page && IsForPageAlone(column.metric)) continue;
      const std::string& name = column.metric.empty() ? column.title : column.metric;
      if (column.better == better && std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
    }
    if (!names.empty()) parts.push_back(absl::StrCat("the ", Name(better), " of ", absl::StrJoin(names, ", ")));
  }
  return absl::StrJoin(parts, "; ");
}

void Comparison::FindOptions() {
  for (size_t i = 0; i < runs_.size(); ++i) {
    if (!runs_[i].run->record().has_value()) continue;
    for (const auto& [name, value] : runs_[i].run->record()->options) {
      auto found = std::find_if(options_.begin(), options_.end(), [&](const Option& o) { return o.name == name; });
      if (found == options_.end()) {
        options_.push_back({.name = name, .values = std::vector<std::optional<std::string>>(runs_.size())});
        found = options_.end() - 1;
      }
      found->values[i] = value;
    }
  }
  const auto is_known = [this](size_t i) { return runs_[i].run->record().has_value(); };
  const auto same = [&](const Option& option) {
    std::vector<std::optional<std::string>> known;
    for (size_t i = 0; i < runs_.size(); ++i) {
      if (is_known(i)) known.push_back(option.values[i]);
    }
    return std::all_of(known.begin(), known.end(), [&](const auto& value) { return value == known[0]; });
  };
  options_.erase(std::remove_if(options_.begin(), options_.end(), same), options_.end());
  for (Option& option : options_) {
    for (size_t i = 0; i < runs_.size(); ++i) {
      if (!is_known(i)) option.values[i] = "?";
    }
  }
}

std::string Comparison::ToText() const {
  std::vector<std::vector<std::string>> table(1);
  std::vector<bool> right, shown;
  std::vector<std::string> left_out;
  for (const Column& column : columns_) {
    shown.push_back(!IsForPageAlone(column.metric));
    if (shown.back()) {
      table[0].push_back(column.title);
      right.push_back(column.number);
    } else if (left_out.empty() || left_out.back() != column.metric) {
      left_out.push_back(column.metric);
    }
  }
  bool marked = false;
  for (const std::vector<Cell>& row : rows_) {
    table.emplace_back();
    for (size_t i = 0; i < row.size(); ++i) {
      if (!shown[i]) continue;
      const Cell& cell = row[i];
      table.back().push_back(cell.text.empty() ? "-" : cell.best ? cell.text + " *" : cell.text);
      marked = marked || cell.best;
    }
  }
  std::string text = TextTable(table, right);
  if (marked) absl::StrAppend(&text, "* the best: ", Printable(WhatIsBest(/*for_page=*/false)), "\n");
  if (!left_out.empty()) {
    absl::StrAppend(&text, "the page also has ", Printable(absl::StrJoin(left_out, ", ")), " of the evaluations\n");
  }
  for (const ComparedRun& one : runs_) {
    for (const OptionChange& change : ChangesOf(*one.run)) {
      absl::StrAppend(&text, one.name, ": changed after step ", change.step, ": ", Printable(change.ToString()), "\n");
    }
  }
  if (options_.empty() || runs_.size() < 2) return text;
  std::vector<std::vector<std::string>> options = {{"options that differ"}};
  for (const ComparedRun& one : runs_) options[0].push_back(one.name);
  for (const Option& option : options_) {
    options.push_back({absl::StrCat("--", option.name)});
    for (const auto& value : option.values) options.back().push_back(value.value_or("-"));
  }
  return absl::StrCat(text, "\n", TextTable(options, std::vector<bool>(options[0].size(), false)));
}

}  // namespace snug::core::cli
