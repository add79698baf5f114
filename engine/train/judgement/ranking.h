// How well scores put the rows of a class before all others: the ROC curve, and the area under it. Exact: pairs of rows
// are counted in whole numbers, and a tie is half a pair.
#pragma once

#include <vector>

namespace snug::core {

struct RankedRow {
  double score = 0;
  bool positive = false;  // whether it is of the class
};

// Returns the probability that a row of the class scores higher than one that is not, a tie counting half. NaN where
// there are no rows of one kind, or where a score is no number. Sorts the rows.
double AreaUnderRoc(std::vector<RankedRow>& rows);

// What is taken for the class at a threshold: all rows that score at least as high.
struct RocPoint {
  double false_positives = 0, true_positives = 0;  // shares of the rows of each kind
  double threshold = 0;
};

// Returns the corners of the curve from (0, 0), whose threshold is infinite, to (1, 1). Empty where AreaUnderRoc() is
// NaN. Sorts the rows.
std::vector<RocPoint> RocCurve(std::vector<RankedRow>& rows);

}  // namespace snug::core
