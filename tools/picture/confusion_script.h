// The script that draws confusion matrices, for the pages that do.
#pragma once

namespace snug::core::cli {

extern const char kConfusionScript[];  // confusion.js

}  // namespace snug::core::cli
