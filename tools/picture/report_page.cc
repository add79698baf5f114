#include "tools/picture/report_page.h"

#include <absl/strings/str_replace.h>

#include "tools/picture/confusion_script.h"

namespace snug::core::cli {
namespace {

constexpr char kReportPage[] =
#include "tools/picture/report_page.inc"
    ;

}  // namespace

std::string ReportPage(const std::string& document) {
  // The document is inside a <script>, which a "</script>" in a name must not end.
  return absl::StrReplaceAll(
      kReportPage, {{"@CONFUSION@", kConfusionScript}, {"@DATA@", absl::StrReplaceAll(document, {{"<", "\\u003c"}})}});
}

}  // namespace snug::core::cli
