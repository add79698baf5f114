// A curve of any number of points, kept as at most a thousand: neighbours are merged, two by two, whenever there are
// more. A point tells the mean, the least and the most of what was merged into it, so that nothing that stands out is
// lost to the eye, and a training of a million steps takes no more room than one of a thousand.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace snug::core::runs {

class ThinCurve {
 public:
  static constexpr size_t kMostPoints = 1000;

  struct Point {
    int64_t step = 0;                    // of the last that was merged
    double seconds = 0;                  // of the same: how long the training had run
    double mean = 0, low = 0, high = 0;  // of those that are finite; NaN where none is
    int64_t finite = 0;
  };
  struct Extreme {
    int64_t step;
    double value;
  };

  void Add(int64_t step, double seconds, double value);

  const std::vector<Point>& points() const { return points_; }
  // How often neighbours were merged: every point may have changed then. Otherwise only the last one does.
  int64_t merges() const { return merges_; }
  int64_t added() const { return added_; }                 // how many values there were
  std::optional<double> last() const { return last_; }     // which may not be finite
  std::optional<Extreme> least() const { return least_; }  // the first of them, of those that are finite
  std::optional<Extreme> most() const { return most_; }

 private:
  void MergeNeighbours();

  std::vector<Point> points_;
  int64_t width_ = 1, in_last_ = 0;  // how many values a point is of, and how many are in the last one so far
  int64_t merges_ = 0, added_ = 0;
  std::optional<double> last_;
  std::optional<Extreme> least_, most_;
};

}  // namespace snug::core::runs
