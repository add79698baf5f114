#include "tools/runs/thin_curve.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace snug::core::runs {
namespace {

constexpr double kNothing = std::numeric_limits<double>::quiet_NaN();

// Takes `later` into `point`.
void Merge(const ThinCurve::Point& later, ThinCurve::Point* point) {
  point->step = later.step;
  point->seconds = later.seconds;
  if (later.finite == 0) return;
  if (point->finite == 0) {
    point->mean = later.mean;
    point->low = later.low;
    point->high = later.high;
  } else {
    const double share = static_cast<double>(later.finite) / static_cast<double>(point->finite + later.finite);
    point->mean += (later.mean - point->mean) * share;
    point->low = std::min(point->low, later.low);
    point->high = std::max(point->high, later.high);
  }
  point->finite += later.finite;
}

}  // namespace

void ThinCurve::Add(int64_t step, double seconds, double value) {
  Point point{.step = step, .seconds = seconds, .mean = kNothing, .low = kNothing, .high = kNothing};
  last_ = value;
  ++added_;
  if (std::isfinite(value)) {
    point.mean = point.low = point.high = value;
    point.finite = 1;
    if (!least_.has_value() || value < least_->value) least_ = Extreme{step, value};
    if (!most_.has_value() || value > most_->value) most_ = Extreme{step, value};
  }
  if (!points_.empty() && in_last_ < width_) {
    Merge(point, &points_.back());
    ++in_last_;
    return;
  }
  if (points_.size() == kMostPoints) MergeNeighbours();
  points_.push_back(point);
  in_last_ = 1;
}

void ThinCurve::MergeNeighbours() {
  for (size_t i = 0; i + 1 < points_.size(); i += 2) {
    points_[i / 2] = points_[i];
    Merge(points_[i + 1], &points_[i / 2]);
  }
  points_.resize(points_.size() / 2);
  width_ *= 2;
  ++merges_;
}

}  // namespace snug::core::runs
