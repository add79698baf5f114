// A table of rows as text.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace snug::core {

// Its columns are as wide as their longest words, up to a limit.
class Columns {
 public:
  explicit Columns(std::vector<std::string> titles) : rows_{std::move(titles)} {}
  void Add(std::vector<std::string> row) { rows_.push_back(std::move(row)); }
  size_t rows() const { return rows_.size() - 1; }  // without the titles

  // The first `words` columns hold words; the others hold numbers.
  std::string Text(size_t words) const;

 private:
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace snug::core
