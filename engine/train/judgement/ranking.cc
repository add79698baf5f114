#include "engine/train/judgement/ranking.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>

namespace snug::core {
namespace {

// Sorts by score, the highest first. Returns whether there are rows of both kinds, and all scores are numbers.
bool Sort(std::vector<RankedRow>& rows) {
  size_t positives = 0;
  for (const RankedRow& row : rows) {
    if (std::isnan(row.score)) return false;
    positives += row.positive ? 1 : 0;
  }
  if (positives == 0 || positives == rows.size()) return false;
  std::sort(rows.begin(), rows.end(), [](const RankedRow& a, const RankedRow& b) { return a.score > b.score; });
  return true;
}

// Calls `group` with each score's number of rows, of the class and not, from the highest score on.
template <class Fn>
void ForEachScore(const std::vector<RankedRow>& rows, Fn&& group) {
  for (size_t i = 0; i < rows.size();) {
    const double score = rows[i].score;
    int64_t positives = 0, negatives = 0;
    for (; i < rows.size() && rows[i].score == score; ++i) ++(rows[i].positive ? positives : negatives);
    group(score, positives, negatives);
  }
}

}  // namespace

double AreaUnderRoc(std::vector<RankedRow>& rows) {
  if (!Sort(rows)) return std::numeric_limits<double>::quiet_NaN();
  // Pairs count twice, so that a tie's half is a whole number.
  uint64_t doubled = 0, above = 0, negatives_in_all = 0;
  ForEachScore(rows, [&](double, int64_t positives, int64_t negatives) {
    const auto p = static_cast<uint64_t>(positives), n = static_cast<uint64_t>(negatives);
    doubled += n * (2 * above + p);
    above += p;
    negatives_in_all += n;
  });
  return static_cast<double>(doubled) / (2 * static_cast<double>(above) * static_cast<double>(negatives_in_all));
}

std::vector<RocPoint> RocCurve(std::vector<RankedRow>& rows) {
  if (!Sort(rows)) return {};
  const auto count = [&](bool kind) {
    return static_cast<double>(
        std::count_if(rows.begin(), rows.end(), [kind](const RankedRow& row) { return row.positive == kind; }));
  };
  const double positives_in_all = count(true), negatives_in_all = count(false);
  struct Step {
    int64_t right, up;
  };
  std::vector<Step> steps;
  std::vector<RocPoint> corners = {{0, 0, std::numeric_limits<double>::infinity()}};
  int64_t right = 0, up = 0;
  ForEachScore(rows, [&](double score, int64_t positives, int64_t negatives) {
    right += negatives;
    up += positives;
    // A point between two others of one direction is no corner.
    const bool straight = !steps.empty() && steps.back().right * positives == steps.back().up * negatives;
    if (straight) {
      corners.pop_back();
      steps.back() = {steps.back().right + negatives, steps.back().up + positives};
    } else {
      steps.push_back({negatives, positives});
    }
    corners.push_back(
        {static_cast<double>(right) / negatives_in_all, static_cast<double>(up) / positives_in_all, score});
  });
  return corners;
}

}  // namespace snug::core
