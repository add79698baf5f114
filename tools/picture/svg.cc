#include <absl/strings/str_format.h>
#include <absl/strings/str_replace.h>

#include <algorithm>
#include <map>
#include <set>

#include "tools/picture/picture.h"

namespace snug::core::cli {
namespace {

constexpr double kWidth = 1400, kHeight = 760, kLeft = 90, kRight = 20, kTop = 64, kBottom = 60;

std::string Escaped(const std::string& text) {
  return absl::StrReplaceAll(text, {{"&", "&amp;"}, {"<", "&lt;"}, {">", "&gt;"}, {"\"", "&quot;"}});
}

std::string Size(int64_t bytes) {
  const auto value = static_cast<double>(bytes);
  if (value >= 1e9) return absl::StrFormat("%.2f GB", value / 1e9);
  if (value >= 1e6) return absl::StrFormat("%.2f MB", value / 1e6);
  if (value >= 1e3) return absl::StrFormat("%.2f kB", value / 1e3);
  return absl::StrFormat("%d B", bytes);
}

class Drawing {
 public:
  Drawing(const Picture& picture, const PictureStrategy& strategy)
      : picture_(picture),
        strategy_(strategy),
        end_(static_cast<double>(strategy.nodes.size()) + 1),
        high_(std::max(1.0, static_cast<double>(strategy.total) * 1.04)) {}

  std::string Draw() {
    absl::StrAppendFormat(&svg_,
                          "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %g %g\" font-family=\"DejaVu Sans, "
                          "sans-serif\" font-size=\"12\">\n<rect width=\"100%%\" height=\"100%%\" fill=\"#fff\"/>\n",
                          kWidth, kHeight);
    Heading();
    Axes();
    for (const PictureBuffer& buffer : strategy_.buffers) Rectangle(buffer);
    if (strategy_.total == strategy_.lower_bound) {
      Level(strategy_.total, "#0f8a4b", "arena, at its bound, " + Size(strategy_.total), -6);
    } else {
      Level(strategy_.total, "#1c2430", "arena " + Size(strategy_.total), -6);
      Level(strategy_.lower_bound, "#0f8a4b", "bound " + Size(strategy_.lower_bound), 15);
    }
    Moment();
    Legend();
    return svg_ + "</svg>\n";
  }

 private:
  double X(double t) const { return kLeft + t / end_ * (kWidth - kLeft - kRight); }
  double Y(double address) const { return kHeight - kBottom - address / high_ * (kHeight - kTop - kBottom); }

  void Text(double x, double y, const std::string& text, const char* attributes) {
    absl::StrAppendFormat(&svg_, "<text x=\"%.1f\" y=\"%.1f\" %s>%s</text>\n", x, y, attributes, Escaped(text));
  }

  void Heading() {
    Text(kLeft, 26,
         absl::StrFormat("%s, batch %d, %s: strategy %s", picture_.network, picture_.batch, picture_.mode,
                         strategy_.name),
         "font-size=\"17\" font-weight=\"bold\" fill=\"#1c2430\"");
    Text(kLeft, 46,
         absl::StrFormat("%d buffers, %d nodes; arena %d bytes, lower bound %d%s", strategy_.buffers.size(),
                         strategy_.nodes.size(), strategy_.total, strategy_.lower_bound,
                         strategy_.proven ? " (proven optimal)" : ""),
         "fill=\"#5d6b7e\"");
  }

  void Axes() {
    for (int i = 0; i <= 5; ++i) {
      const double address = static_cast<double>(strategy_.total) * i / 5;
      absl::StrAppendFormat(&svg_, "<path d=\"M%g %.1fH%g\" stroke=\"#e6ebf1\"/>\n", kLeft, Y(address),
                            kWidth - kRight);
      Text(kLeft - 6, Y(address) + 4, Size(static_cast<int64_t>(address)), "text-anchor=\"end\" fill=\"#5d6b7e\"");
      const auto node = static_cast<int64_t>(static_cast<double>(strategy_.nodes.size()) * i / 5);
      Text(X(static_cast<double>(node)), kHeight - kBottom + 18, absl::StrFormat("node %d", node),
           i < 5 ? "text-anchor=\"middle\" fill=\"#5d6b7e\"" : "text-anchor=\"end\" fill=\"#5d6b7e\"");
    }
  }

  void Rectangle(const PictureBuffer& b) {
    absl::StrAppendFormat(&svg_,
                          "<rect x=\"%.2f\" y=\"%.2f\" width=\"%.2f\" height=\"%.2f\" fill=\"%s\" stroke=\"#fff\" "
                          "stroke-width=\".4\"><title>%s: %s, %d bytes at %d, nodes %d to %d</title></rect>\n",
                          X(b.first), Y(static_cast<double>(b.offset + b.size_bytes)), X(b.last + 1.0) - X(b.first),
                          Y(static_cast<double>(b.offset)) - Y(static_cast<double>(b.offset + b.size_bytes)),
                          KindColour(b.kind), Escaped(b.name), Escaped(b.op), b.size_bytes, b.offset, b.first, b.last);
  }

  void Level(int64_t address, const char* colour, const std::string& text, double below) {
    const double y = Y(static_cast<double>(address));
    absl::StrAppendFormat(&svg_, "<path d=\"M%g %.1fH%g\" stroke=\"%s\" stroke-dasharray=\"6 4\" fill=\"none\"/>\n",
                          kLeft, y, kWidth - kRight, colour);
    // On a white rim, because there may be buffers behind it.
    const std::string style = absl::StrFormat(
        "text-anchor=\"end\" fill=\"%s\" stroke=\"#fff\" stroke-width=\"3\" paint-order=\"stroke\"", colour);
    Text(kWidth - kRight - 4, y + below, text, style.c_str());
  }

  void Moment() {
    const LivePeak peak = FindLivePeak(strategy_);
    const double x = X(peak.position + .5);
    absl::StrAppendFormat(&svg_, "<path d=\"M%.1f %gV%g\" stroke=\"#c62f3b\" stroke-dasharray=\"3 3\"/>\n", x, kTop,
                          kHeight - kBottom);
    const bool at_end = static_cast<size_t>(peak.position) >= strategy_.nodes.size();
    Text(std::clamp(x, kLeft + 120, kWidth - kRight - 160), kTop - 4,
         absl::StrFormat("peak %s at %s", Size(peak.bytes),
                         at_end ? "the end" : strategy_.nodes[static_cast<size_t>(peak.position)]),
         "text-anchor=\"middle\" fill=\"#c62f3b\"");
  }

  void Legend() {
    std::set<std::string> kinds;
    for (const PictureBuffer& b : strategy_.buffers) kinds.insert(b.kind);
    double x = kLeft;
    for (const std::string& kind : kinds) {
      absl::StrAppendFormat(&svg_, "<rect x=\"%.1f\" y=\"%g\" width=\"12\" height=\"12\" fill=\"%s\"/>\n", x,
                            kHeight - 27, KindColour(kind));
      Text(x + 17, kHeight - 17, kind, "fill=\"#1c2430\"");
      x += 40 + 7.5 * static_cast<double>(kind.size());
    }
  }

  const Picture& picture_;
  const PictureStrategy& strategy_;
  const double end_, high_;
  std::string svg_;
};

}  // namespace

std::string KindColour(const std::string& kind) {
  static const std::map<std::string, std::string>& colours =
      *new std::map<std::string, std::string>{{"activations", "#4f8fd8"},
                                              {"gradients", "#e08a3c"},
                                              {"optimizer", "#c9a227"},
                                              {"workspace", "#9aa5b1"},
                                              {"weights", "#5fb3b3"}};
  const auto found = colours.find(kind);
  return found == colours.end() ? "#7d8aa0" : found->second;
}

std::string PictureSvg(const Picture& picture) {
  const auto chosen = std::find_if(picture.strategies.begin(), picture.strategies.end(),
                                   [&](const PictureStrategy& s) { return s.name == picture.chosen; });
  return Drawing(picture, chosen == picture.strategies.end() ? picture.strategies.front() : *chosen).Draw();
}

}  // namespace snug::core::cli
