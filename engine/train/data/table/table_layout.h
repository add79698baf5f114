// Which column of a CSV file is the label, a category or a number, by the options and the header, and, where a table
// was trained with, by what was learnt from that.
#pragma once

#include <absl/status/statusor.h>
#include <absl/strings/string_view.h>

#include <cstdint>
#include <string>
#include <vector>

#include "engine/train/data/table/table.h"

namespace snug::core {

struct TableLayout {
  bool header = false;
  int64_t first_line = 1;            // the line of the first record
  std::vector<std::string> names;    // of all columns of the file; without a header their numbers
  size_t label = 0;                  // the label's column in the file; beyond all columns: there is none
  std::vector<TableColumn> columns;  // all others, in the sequence in which they are fed
  std::vector<size_t> sources;       // of `columns`: which column of the file each is

  bool has_label() const { return label < names.size(); }
  std::string label_name() const { return has_label() ? names[label] : ""; }
};

// Reads the first record of the file, and as many more as it takes to tell whether that is a header. With `fit`, the
// columns are those that it was learnt from, in its sequence; a file that has others is an error, and so are options
// that say something else of them.
absl::StatusOr<TableLayout> FindLayout(const FileBytes& file, const CsvOptions& options, const TableFit* fit);

}  // namespace snug::core
