// The picture of a training: numbers against steps, as SVG for a page or print.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace snug {

struct Series {
  std::string name;
  std::vector<std::pair<double, double>> points;  // x and y, by x
  bool faint = false;                             // single steps, behind the others
};

struct CurvePanel {
  std::string title;
  std::vector<Series> series;
  bool falls = false;  // towards 0, as a loss: logarithmic where that spans more than a factor of twenty
};

// Panels one below the other, over one axis of steps.
std::string CurveSvg(const std::string& title, const std::vector<CurvePanel>& panels);

// The mean of the last `window` points at each, so that what single batches do does not hide the course.
Series Smoothed(const Series& series, size_t window, std::string name);

}  // namespace snug
