#include "engine/run/observe/columns.h"

#include <absl/strings/str_cat.h>

#include <algorithm>

namespace snug::core {

std::string Columns::Text(size_t words) const {
  constexpr size_t kWidest = 72;
  std::vector<size_t> widths(rows_[0].size(), 0);
  for (const std::vector<std::string>& row : rows_) {
    for (size_t c = 0; c < row.size(); ++c) widths[c] = std::max(widths[c], std::min(row[c].size(), kWidest));
  }
  std::string text;
  for (const std::vector<std::string>& row : rows_) {
    for (size_t c = 0; c < row.size(); ++c) {
      const std::string cell = row[c].substr(0, kWidest);
      const std::string blanks(widths[c] - cell.size(), ' ');
      absl::StrAppend(&text, c == 0 ? "" : "  ", c < words ? "" : blanks, cell, c < words ? blanks : "");
    }
    absl::StrAppend(&text, "\n");
  }
  return text;
}

}  // namespace snug::core
