// A table as it was read from a CSV file: numbers, categories by the sequence in which they appeared, and a label for
// each row. What becomes of them is learnt from the training rows (table_fit.h).
#pragma once

#include <absl/status/statusor.h>
#include <absl/strings/string_view.h>
#include <absl/types/span.h>

#include <cstdint>
#include <string>
#include <vector>

#include "engine/train/data/file_bytes.h"
#include "engine/train/data/sources.h"

namespace snug::core {

struct TableFit;

// What an empty field becomes.
struct MissingRule {
  enum class Kind : uint8_t { kRefuse, kMean, kNumber };
  Kind kind = Kind::kRefuse;
  double number = 0;  // for kNumber

  // Reads "refuse", "mean" or a number; false where it is none of them.
  static bool Parse(absl::string_view text, MissingRule* rule);
  std::string ToString() const;
  friend bool operator==(const MissingRule& a, const MissingRule& b) {
    return a.kind == b.kind && a.number == b.number;
  }
};

// A column of a table that is not the label.
struct TableColumn {
  std::string name;  // from the header; without one, the column's number from 0
  bool category = false;
  MissingRule missing;
};

struct Table {
  std::string path;
  bool header = false;
  std::vector<TableColumn> columns;
  bool has_label = true;  // whether a column of labels is there; without it no row's label is known
  std::string label;      // the name of that column
  int64_t rows = 0;
  size_t numbers_of_row = 0, categories_of_row = 0;
  std::vector<double> numbers;  // rows x columns of numbers; NaN where a field is empty
  std::vector<int32_t> codes;   // rows x categories: an index of `values`, or -1 where a field is empty
  std::vector<std::vector<std::string>> values;  // by category, in the sequence in which they appeared
  std::vector<int64_t> lines;                    // of the file, by row
  std::vector<float> targets;                    // the label of each row, for regression
  std::vector<int32_t> labels;                   // the label of each row, for classes
  std::vector<std::string> classes;              // where labels are texts: what `labels` are indexes of
};

// Reads a whole file. With `fit`, the columns are those that it was learnt from, in its sequence, and labels that are
// texts become its classes; a table that does not fit is an error, and so are options that say something else.
absl::StatusOr<Table> ReadTable(const FileBytes& file, const CsvOptions& options, const TableFit* fit);

// Joins names for a message: "a, b, c", and only the first of them where they are many.
std::string ListNames(absl::Span<const std::string> names, size_t most = 20);
// The same with each of them in quotes.
std::string ListQuoted(absl::Span<const std::string> names, size_t most = 20);

}  // namespace snug::core
