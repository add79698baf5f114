// The page that `snug eval --report` writes.
#pragma once

#include <string>

namespace snug::core::cli {

// Returns a self-contained page that draws the JSON document of an evaluation (tools/cli/judge/report.h).
std::string ReportPage(const std::string& document);

}  // namespace snug::core::cli
