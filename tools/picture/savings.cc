#include <absl/strings/str_format.h>
#include <absl/strings/str_replace.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <set>

#include "tools/picture/memory_table.h"

namespace snug::core::cli {
namespace {

constexpr double kChartWidth = 900, kChartLeft = 160, kChartRight = 70, kChartTop = 92, kChartBottom = 40,
                 kChartBar = 11, kChartGap = 8;
constexpr const char* kBatchColours[] = {"#8fb6e3", "#0b63c5", "#12396b", "#5fb3b3"};
constexpr size_t kChartLongestName = 22;  // letters, of what stands left of the bars

std::string Letters(const std::string& text) {
  return absl::StrReplaceAll(text, {{"&", "&amp;"}, {"<", "&lt;"}, {">", "&gt;"}, {"\"", "&quot;"}});
}

std::string Shortened(const std::string& name) {
  return name.size() <= kChartLongestName ? name : name.substr(0, kChartLongestName - 1) + "\u2026";
}

class Bars {
 public:
  explicit Bars(const MemoryTable& table) : about_(table.about.substr(0, table.about.find(';'))) {
    for (const MemoryTableRow& row : table.rows) {
      if (row.mode != "training" || !row.SavedAgainstPyTorch("best").has_value()) continue;
      rows_.push_back(&row);
      batches_.insert(row.batch);
      if (std::find(names_.begin(), names_.end(), row.network) == names_.end()) names_.push_back(row.network);
      least_ = std::min(least_, *row.SavedAgainstPyTorch("best"));
    }
    least_ = least_ < 0 ? std::max(-1.0, std::floor(least_ * 10) / 10) : 0;
    summaries_ = Summarize(table.rows);
    line_ = kChartBar * static_cast<double>(batches_.size()) + kChartGap;
    height_ = kChartTop + line_ * static_cast<double>(names_.size()) + kChartBottom;
  }

  std::string Draw() {
    absl::StrAppendFormat(&svg_,
                          "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %g %g\" font-family=\"DejaVu Sans, "
                          "sans-serif\" font-size=\"12\">\n<rect width=\"100%%\" height=\"100%%\" fill=\"#fff\"/>\n",
                          kChartWidth, height_);
    Text(16, 26, "Memory of a training step: less than PyTorch\u2019s allocator reserves (simulated)",
         "font-size=\"16\" font-weight=\"bold\" fill=\"#1c2430\"");
    Text(16, 68, about_, "fill=\"#5d6b7e\"");
    Legend();
    Axis();
    for (size_t i = 0; i < names_.size(); ++i) Network(i);
    return svg_ + "</svg>\n";
  }

 private:
  double X(double share) const {
    return kChartLeft + (share - least_) / (1 - least_) * (kChartWidth - kChartLeft - kChartRight);
  }

  void Text(double x, double y, const std::string& text, const char* attributes) {
    absl::StrAppendFormat(&svg_, "<text x=\"%.1f\" y=\"%.1f\" %s>%s</text>\n", x, y, attributes, Letters(text));
  }

  const char* Colour(int64_t batch) const {
    const auto number = static_cast<size_t>(std::distance(batches_.begin(), batches_.find(batch)));
    return kBatchColours[number % std::size(kBatchColours)];
  }

  void Legend() {
    double x = 16;
    for (const MemorySummary& summary : summaries_) {
      if (summary.mode != "training") continue;
      absl::StrAppendFormat(&svg_, "<rect x=\"%.1f\" y=\"40\" width=\"12\" height=\"12\" fill=\"%s\"/>\n", x,
                            Colour(summary.batch));
      std::string text = absl::StrFormat("batch %d: mean %.1f %%", summary.batch, 100 * summary.saved);
      if (const std::optional<double> olla = PublishedByOlla(summary.batch)) {
        absl::StrAppendFormat(&text, " (OLLA\u2019s paper, its eleven: %.1f %%)", 100 * *olla);
      }
      Text(x + 18, 50, text, "fill=\"#1c2430\"");
      x += 44 + 7.2 * static_cast<double>(text.size());
    }
  }

  void Axis() {
    for (double share = least_; share < 1.001; share += 0.2) {
      absl::StrAppendFormat(&svg_, "<path d=\"M%.1f %gV%g\" stroke=\"#e6ebf1\"/>\n", X(share), kChartTop - 6,
                            height_ - kChartBottom + 4);
      Text(X(share), height_ - kChartBottom + 20, absl::StrFormat("%.0f %%", 100 * share),
           "text-anchor=\"middle\" fill=\"#5d6b7e\"");
    }
  }

  void Network(size_t i) {
    const double top = kChartTop + line_ * static_cast<double>(i);
    Text(kChartLeft - 8, top + (line_ - kChartGap) / 2 + 4, Shortened(names_[i]),
         "text-anchor=\"end\" fill=\"#1c2430\"");
    for (const MemoryTableRow* row : rows_) {
      if (row->network != names_[i]) continue;
      const double share = *row->SavedAgainstPyTorch("best");
      const auto number = static_cast<double>(std::distance(batches_.begin(), batches_.find(row->batch)));
      const double y = top + kChartBar * number;
      absl::StrAppendFormat(&svg_,
                            "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%g\" fill=\"%s\"><title>%s, batch %d: "
                            "%d bytes, PyTorch %d</title></rect>\n",
                            std::min(X(0), X(share)), y, std::abs(X(share) - X(0)), kChartBar - 1, Colour(row->batch),
                            Letters(row->network), row->batch, row->Find("best")->bytes, row->pytorch->reserved);
      Text(std::max(X(0), X(share)) + 4, y + kChartBar - 1.5, absl::StrFormat("%.0f %%", 100 * share),
           "font-size=\"10\" fill=\"#5d6b7e\"");
    }
  }

  const std::string about_;  // one line
  std::vector<const MemoryTableRow*> rows_;
  std::vector<std::string> names_;
  std::set<int64_t> batches_;
  std::vector<MemorySummary> summaries_;
  double least_ = 0, line_ = 0, height_ = 0;
  std::string svg_;
};

}  // namespace

std::string SavingsSvg(const MemoryTable& table) { return Bars(table).Draw(); }

}  // namespace snug::core::cli
