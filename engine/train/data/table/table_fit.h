// What is learnt from the training rows of a table, and applied to every row: which values a category has, what stands
// in for empty fields, the mean and the deviation of each column, and the classes of labels that are texts. A
// checkpoint keeps it as JSON, so that evaluations and trainings that go on see the numbers that were trained with.
#pragma once

#include <absl/status/statusor.h>
#include <absl/strings/string_view.h>
#include <absl/types/span.h>

#include <cstdint>
#include <string>
#include <vector>

#include "engine/train/data/table/table.h"

namespace snug::core {

struct TableFit {
  struct Column {
    TableColumn column;
    // Of a column of numbers.
    double fill = 0;                 // in place of an empty field
    double mean = 0, deviation = 1;  // what is subtracted, and what it is then divided by
    bool constant = false;           // has one value in all training rows; known after learning alone
    // Of a category, which becomes a number for each of its values.
    std::vector<std::string> values;  // sorted
    std::vector<double> fills;        // these numbers in place of an empty field; none where that is refused
  };
  bool header = false, normalised = false;
  std::vector<Column> columns;
  std::string label;                 // the name of its column
  std::vector<std::string> classes;  // sorted; empty where labels are numbers

  int64_t CountFeatures() const;
  // What the numbers of a sample are: "age", "city=Bern".
  std::vector<std::string> FeatureNames() const;

  std::string ToJson() const;
  static absl::StatusOr<TableFit> FromJson(absl::string_view text);
};

// `rows` are those to learn from; classes come from all rows, since a label says nothing about the features. Fails
// where a mean is asked for and there is no number.
absl::StatusOr<TableFit> LearnTable(const Table& table, absl::Span<const int64_t> rows, bool normalise);

}  // namespace snug::core
