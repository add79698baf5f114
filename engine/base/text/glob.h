// Matches names with patterns like those of shells: `*` stands for any run of characters, dots too, `?` for any one,
// and everything else for itself. Takes O(pattern * name).
#pragma once

#include <absl/strings/string_view.h>

namespace snug::core {

bool GlobMatches(absl::string_view pattern, absl::string_view name);

}  // namespace snug::core
