#include "tools/picture/run_pages.h"

#include <absl/strings/str_replace.h>

#include "tools/picture/confusion_script.h"

namespace snug::core::cli {
namespace {

constexpr char kWatchPage[] =
#include "tools/picture/watch_page.inc"
    ;
constexpr char kComparePage[] =
#include "tools/picture/compare_page.inc"
    ;
constexpr char kChartScript[] =
#include "tools/picture/chart.inc"
    ;
constexpr char kChartStyle[] =
#include "tools/picture/chart_style.inc"
    ;

}  // namespace

std::string WatchPage() {
  return absl::StrReplaceAll(kWatchPage,
                             {{"@CHART@", kChartScript}, {"@CONFUSION@", kConfusionScript}, {"@STYLE@", kChartStyle}});
}

std::string ComparePage(const std::string& json) {
  // The data are inside a <script>, which a "</script>" in a name must not end.
  const std::string data = absl::StrReplaceAll(json, {{"<", "\\u003c"}});
  return absl::StrReplaceAll(kComparePage, {{"@CHART@", kChartScript}, {"@STYLE@", kChartStyle}, {"@DATA@", data}});
}

}  // namespace snug::core::cli
