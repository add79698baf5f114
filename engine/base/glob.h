// Names by pattern, as shells have it: `*` any run of characters, dots too; `?` any one; everything else itself. Time
// is O(pattern * name).
#pragma once

#include <absl/strings/string_view.h>

namespace snug {

bool GlobMatches(absl::string_view pattern, absl::string_view name);

}  // namespace snug
