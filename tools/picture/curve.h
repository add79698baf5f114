// Draws a training, as numbers against steps, in SVG for a page or print.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace snug::core {

struct Series {
  std::string name;
  std::vector<std::pair<double, double>> points;  // x and y, sorted by x
  bool faint = false;                             // for single steps, drawn behind the other series
};

struct CurvePanel {
  std::string title;
  std::vector<Series> series;
  bool falls = false;  // for numbers that fall towards 0, as a loss does: the axis is logarithmic if they span more
                       // than a factor of twenty
};

// The axis that all panels have in common.
struct CurveAxis {
  std::string name = "step";
  bool logarithmic = false;  // for numbers above 0
  std::vector<std::pair<double, std::string>>
      marks;  // places with a line from top to bottom, and what is written there
};

// Draws panels one below the other.
std::string CurveSvg(const std::string& title, const std::vector<CurvePanel>& panels, const CurveAxis& axis = {});

// Replaces each point by the mean of the last `window` points, so that single batches do not hide the course.
Series Smoothed(const Series& series, size_t window, std::string name);

}  // namespace snug::core
