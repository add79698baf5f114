// Several runs side by side: what each reached, and which of their options differ. `snug compare` shows it as text, as
// JSON and as a page.
#pragma once

#include <absl/status/statusor.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/train/metric_direction.h"
#include "tools/runs/run_follower.h"

namespace snug::core::cli {

struct ComparedRun {
  std::string name;  // the last part of its path; all of it where two runs have the same
  std::unique_ptr<const runs::RunFollower> run;
};

class Comparison {
 public:
  struct Column {
    std::string title;
    bool number = false;
    std::string metric = {};  // empty: of none
    Better better = Better::kUnknown;
  };
  struct Cell {
    std::string text;   // empty: the run has none
    bool best = false;  // of its column
  };
  struct Option {
    std::string name;
    std::vector<std::optional<std::string>>
        values;  // of each run; nothing: its default. "?" where a run tells no options
  };

  explicit Comparison(std::vector<ComparedRun> compared);

  const std::vector<ComparedRun>& runs() const { return runs_; }
  const std::vector<Column>& columns() const { return columns_; }  // the first is the run's name
  const std::vector<std::vector<Cell>>& rows() const { return rows_; }
  const std::vector<Option>& options() const { return options_; }  // those that differ

  std::string ToText() const;
  std::string ToJson(const std::string& page) const;
  std::string ToPage() const;

 private:
  void AddColumn(const std::string& title, Better better, const std::vector<std::optional<double>>& values,
                 const std::vector<std::string>& texts);
  void AddMetric(const std::string& metric, runs::RunFollower::Kind kind);
  // Unknown where the runs do not agree, as where an output of the same name is another number in each.
  Better BetterOf(const std::string& metric) const;
  // Whether the terminal's table leaves it out, as it would be too wide: evaluations alone have it, and no run goes by
  // it.
  bool IsForPageAlone(const std::string& metric) const;
  // "the least of loss; the most of accuracy, samples/s": what the marks of the best go by.
  std::string WhatIsBest(bool for_page) const;
  void FindOptions();

  std::vector<ComparedRun> runs_;
  std::vector<Column> columns_;
  std::vector<std::vector<Cell>> rows_;
  std::vector<Option> options_;
};

// Of what a curve came to in the end: the mean of its last points, so that a single step does not decide.
std::optional<double> EndOf(const runs::ThinCurve& curve);

// What was changed on the way; nothing where the record cannot be read.
std::vector<OptionChange> ChangesOf(const runs::RunFollower& run);

}  // namespace snug::core::cli
