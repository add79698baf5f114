#include "tools/picture/curve.h"

#include <absl/strings/str_cat.h>
#include <absl/strings/str_format.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace snug::core {
namespace {

constexpr double kWidth = 760, kPanelHeight = 250, kLeft = 64, kRight = 130, kTop = 44, kGap = 58;
constexpr const char* kColours[] = {"#2563a8", "#c2571a", "#3c8a4e", "#7a4fa3", "#a33b4b"};

struct Range {
  double low = std::numeric_limits<double>::infinity(), high = -std::numeric_limits<double>::infinity();

  void Add(double value) {
    if (!std::isfinite(value)) return;
    low = std::min(low, value);
    high = std::max(high, value);
  }
  bool empty() const { return low > high; }
};

std::string Escape(const std::string& text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '&':
        out += "&amp;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

// An axis: turns numbers into places on the page, and places its marks.
class Scale {
 public:
  Scale(Range range, double from, double to, bool logarithmic) : from_(from), to_(to), log_(logarithmic) {
    if (range.empty()) range = log_ ? Range{1, 10} : Range{0, 1};  // which has no logarithm of 0
    low_ = log_ ? std::log10(range.low) : range.low;
    high_ = log_ ? std::log10(range.high) : range.high;
    if (high_ - low_ < 1e-12 * std::max(1.0, std::abs(high_))) {
      const double room = std::max(0.5, 1e-6 * std::abs(high_));  // a half is nothing beside a number of many digits
      low_ -= room;
      high_ += room;
    }
  }

  double At(double value) const {
    const double v = log_ ? std::log10(value) : value;
    return from_ + (to_ - from_) * (v - low_) / (high_ - low_);
  }

  std::vector<double> Marks(int about) const {
    std::vector<double> marks;
    if (log_ && high_ - low_ > 1) {
      for (double e = std::ceil(low_ - 1e-9); e <= high_ + 1e-9; ++e) marks.push_back(std::pow(10, e));
      if (marks.size() >= 2) return marks;
      marks.clear();
    }
    const double low = log_ ? std::pow(10, low_) : low_, high = log_ ? std::pow(10, high_) : high_;
    const double raw = (high - low) / about;
    const double power = std::pow(10, std::floor(std::log10(raw)));
    const double unit = raw / power < 1.5 ? 1 : raw / power < 3.5 ? 2 : raw / power < 7.5 ? 5 : 10;
    for (double k = std::ceil(low / (unit * power) - 1e-9); k * unit * power <= high + 1e-9 * power; ++k) {
      marks.push_back(k * unit * power);
    }
    return marks;
  }

 private:
  double from_, to_, low_ = 0, high_ = 1;
  bool log_;
};

std::string Number(double value) { return absl::StrFormat("%.4g", value); }

// Draws only some of very many points, because there are not as many pixels.
std::string Path(const Series& series, const Scale& x, const Scale& y, bool positive) {
  std::string path;
  bool pen_down = false;
  const size_t stride = std::max<size_t>(1, series.points.size() / 4000);
  for (size_t i = 0; i < series.points.size(); i += stride) {
    const auto& [px, py] = series.points[i];
    if (!std::isfinite(py) || (positive && py <= 0)) {
      pen_down = false;
      continue;
    }
    absl::StrAppendFormat(&path, "%s%.1f %.1f", pen_down ? "L" : "M", x.At(px), y.At(py));
    pen_down = true;
  }
  return path;
}

void DrawPanel(const CurvePanel& panel, const CurveAxis& axis, const Range& steps, double top, bool last,
               std::string* svg) {
  Range values;
  bool positive = true;
  for (const Series& series : panel.series) {
    for (const auto& [x, y] : series.points) {
      values.Add(y);
      positive = positive && !(y <= 0);
    }
  }
  const bool logarithmic = panel.falls && positive && !values.empty() && values.high > 20 * values.low;
  const double bottom = top + kPanelHeight, right = kWidth - kRight;
  const Scale x(steps, kLeft, right, axis.logarithmic), y(values, bottom - 6, top + 6, logarithmic);
  absl::StrAppendFormat(svg, "<text x=\"%.0f\" y=\"%.0f\" class=\"panel\">%s%s</text>\n", kLeft, top - 8,
                        Escape(panel.title), logarithmic ? " (logarithmic)" : "");
  for (const double mark : y.Marks(5)) {
    const double at = y.At(mark);
    if (at < top - 1 || at > bottom + 1) continue;
    absl::StrAppendFormat(svg,
                          "<line x1=\"%.0f\" y1=\"%.1f\" x2=\"%.0f\" y2=\"%.1f\" class=\"grid\"/>"
                          "<text x=\"%.0f\" y=\"%.1f\" class=\"mark\" text-anchor=\"end\">%s</text>\n",
                          kLeft, at, right, at, kLeft - 8, at + 4, Number(mark));
  }
  for (const double mark : x.Marks(6)) {
    absl::StrAppendFormat(svg, "<line x1=\"%.1f\" y1=\"%.0f\" x2=\"%.1f\" y2=\"%.0f\" class=\"axis\"/>", x.At(mark),
                          bottom, x.At(mark), bottom + 4);
    if (last) {
      absl::StrAppendFormat(svg, "<text x=\"%.1f\" y=\"%.0f\" class=\"mark\" text-anchor=\"middle\">%s</text>",
                            x.At(mark), bottom + 18, Number(mark));
    }
  }
  absl::StrAppendFormat(svg, "\n<line x1=\"%.0f\" y1=\"%.0f\" x2=\"%.0f\" y2=\"%.0f\" class=\"axis\"/>\n", kLeft,
                        bottom, right, bottom);
  for (const auto& [at, text] : axis.marks) {
    absl::StrAppendFormat(svg,
                          "<line x1=\"%.1f\" y1=\"%.0f\" x2=\"%.1f\" y2=\"%.0f\" class=\"place\"/>"
                          "<text x=\"%.1f\" y=\"%.0f\" class=\"mark\" text-anchor=\"end\">%s</text>\n",
                          x.At(at), top, x.At(at), bottom, x.At(at) - 5, top + 12, Escape(text));
  }
  std::vector<std::pair<double, std::string>> labels;  // where each curve ends, and its label
  size_t colour = 0;
  for (const Series& series : panel.series) {
    const char* const stroke = series.faint ? "#b9c4d0" : kColours[colour++ % std::size(kColours)];
    absl::StrAppendFormat(svg, "<path d=\"%s\" fill=\"none\" stroke=\"%s\" stroke-width=\"%s\"/>\n",
                          Path(series, x, y, logarithmic), stroke, series.faint ? "0.8" : "1.8");
    if (series.points.empty() || series.faint) continue;
    const double end = series.points.back().second;
    const double at = std::isfinite(end) && (!logarithmic || end > 0) ? y.At(end) : top;
    labels.emplace_back(at,
                        absl::StrFormat("style=\"fill:%s\">%s %s</text>\n", stroke, Escape(series.name), Number(end)));
  }
  std::sort(labels.begin(), labels.end());
  double free_from = top;
  for (const auto& [at, text] : labels) {  // labels are kept a line's height apart
    const double baseline = std::max(at + 4, free_from);
    absl::StrAppendFormat(svg, "<text x=\"%.0f\" y=\"%.1f\" class=\"label\" %s", right + 8, baseline, text);
    free_from = baseline + 15;
  }
}

}  // namespace

Series Smoothed(const Series& series, size_t window, std::string name) {
  Series smooth{.name = std::move(name)};
  double sum = 0;
  for (size_t i = 0; i < series.points.size(); ++i) {
    sum += series.points[i].second;
    if (i >= window) sum -= series.points[i - window].second;
    smooth.points.emplace_back(series.points[i].first, sum / static_cast<double>(std::min(i + 1, window)));
  }
  return smooth;
}

std::string CurveSvg(const std::string& title, const std::vector<CurvePanel>& panels, const CurveAxis& axis) {
  const double height = kTop + static_cast<double>(panels.size()) * (kPanelHeight + kGap);
  std::string svg = absl::StrFormat(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%.0f\" height=\"%.0f\" viewBox=\"0 0 %.0f %.0f\">\n"
      "<style>text{font-family:system-ui,sans-serif;fill:#333}.title{font-size:15px;font-weight:600}"
      ".panel{font-size:13px;font-weight:600}.mark{font-size:11px;fill:#666}.label{font-size:12px}"
      ".grid{stroke:#e6e6e6}.axis{stroke:#999}.place{stroke:#c2571a;stroke-dasharray:5 4}</style>\n"
      "<rect width=\"100%%\" height=\"100%%\" fill=\"#fff\"/>\n<text x=\"%.0f\" y=\"22\" class=\"title\">%s</text>\n",
      kWidth, height, kWidth, height, kLeft, Escape(title));
  Range steps;
  for (const CurvePanel& panel : panels) {
    for (const Series& series : panel.series) {
      for (const auto& [x, y] : series.points) steps.Add(x);
    }
  }
  double top = kTop + 14;
  for (size_t i = 0; i < panels.size(); ++i) {
    DrawPanel(panels[i], axis, steps, top, i + 1 == panels.size(), &svg);
    top += kPanelHeight + kGap;
  }
  absl::StrAppendFormat(&svg, "<text x=\"%.0f\" y=\"%.0f\" class=\"mark\" text-anchor=\"middle\">%s</text>\n</svg>\n",
                        (kLeft + kWidth - kRight) / 2, height - 8, Escape(axis.name));
  return svg;
}

}  // namespace snug::core
