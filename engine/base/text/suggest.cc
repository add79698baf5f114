#include "engine/base/text/suggest.h"

#include <absl/strings/ascii.h>
#include <absl/strings/str_cat.h>

#include <algorithm>
#include <vector>

namespace snug::core {
namespace {

// Longer names are not compared: nobody types them, and the time is quadratic.
constexpr size_t kLongest = 128;

std::string Plain(absl::string_view name) {
  std::string plain;
  for (const char c : name) {
    if (c != '_' && c != '-') plain.push_back(absl::ascii_tolower(static_cast<unsigned char>(c)));
  }
  return plain;
}

// A third of the letters may be wrong; in names of two or more letters at least one.
int Tolerance(size_t length) { return length < 2 ? 0 : std::max(1, static_cast<int>(length / 3)); }

}  // namespace

int EditDistance(absl::string_view a, absl::string_view b, int limit) {
  const size_t n = a.size();
  const size_t m = b.size();
  if (std::max(n, m) - std::min(n, m) > static_cast<size_t>(limit)) return limit + 1;
  std::vector<int> before(m + 1);    // row i - 2
  std::vector<int> previous(m + 1);  // row i - 1
  std::vector<int> row(m + 1);
  for (size_t j = 0; j <= m; ++j) row[j] = static_cast<int>(j);
  for (size_t i = 1; i <= n; ++i) {
    std::swap(before, previous);
    std::swap(previous, row);
    row[0] = static_cast<int>(i);
    int least = row[0];
    for (size_t j = 1; j <= m; ++j) {
      row[j] = std::min({previous[j] + 1, row[j - 1] + 1, previous[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1)});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) row[j] = std::min(row[j], before[j - 2] + 1);
      least = std::min(least, row[j]);
    }
    if (least > limit) return limit + 1;
  }
  return std::min(row[m], limit + 1);
}

Suggester::Suggester(absl::string_view name)
    : name_(name.substr(0, kLongest + 1)),
      plain_name_(Plain(name_)),
      best_distance_(Tolerance(plain_name_.size()) + 1) {}

void Suggester::Consider(absl::string_view candidate) {
  if (name_.size() > kLongest || candidate.size() > kLongest || best_distance_ == 0) return;
  const std::string plain = Plain(candidate);
  // A single letter, or a name that only shares its length with the candidate, is no misspelling of it.
  const int limit = std::min(best_distance_ - 1, static_cast<int>(std::max(plain.size(), plain_name_.size())) - 1);
  if (limit < 0) return;
  const int distance = EditDistance(plain_name_, plain, limit);
  if (distance > limit) return;
  best_ = std::string(candidate);
  best_distance_ = distance;
}

std::string Suggester::Question() const { return found() ? absl::StrCat("; did you mean \"", best_, "\"?") : ""; }

}  // namespace snug::core
