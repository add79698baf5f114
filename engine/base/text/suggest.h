// Makes "Did you mean ...?": finds the candidate nearest to a misspelt name.
#pragma once

#include <absl/strings/string_view.h>

#include <string>

namespace snug::core {

// Counts the changes (insert, delete or replace a letter, swap two neighbours) that lead from a to b. Returns limit + 1
// if there are more than `limit`.
int EditDistance(absl::string_view a, absl::string_view b, int limit);

// Takes all candidates, and then tells the nearest. Letter case, '_' and '-' hardly count ("BatchNorm" is near
// "batch_norm"); of equally near candidates the first wins.
class Suggester {
 public:
  explicit Suggester(absl::string_view name);

  void Consider(absl::string_view candidate);

  bool found() const { return !best_.empty(); }
  const std::string& best() const { return best_; }
  // Returns `; did you mean "dense"?`, or nothing.
  std::string Question() const;

 private:
  std::string name_;
  std::string plain_name_;
  std::string best_;
  int best_distance_;
};

}  // namespace snug::core
