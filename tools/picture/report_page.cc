#include "tools/picture/report_page.h"

#include <absl/strings/str_replace.h>

namespace snug::core::cli {
namespace {

constexpr char kReportPage[] =
#include "tools/picture/report_page.inc"
    ;

}  // namespace

std::string ReportPage(const std::string& document) {
  // The document is inside a <script>, which a "</script>" in a name must not end.
  return absl::StrReplaceAll(kReportPage, {{"@DATA@", absl::StrReplaceAll(document, {{"<", "\\u003c"}})}});
}

}  // namespace snug::core::cli
