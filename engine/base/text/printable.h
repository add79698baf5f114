// Makes text of others, as names in files of data, fit to be shown: in a terminal, a table or a document.
#pragma once

#include <absl/strings/string_view.h>

#include <string>

namespace snug::core {

// Returns the text with escapes in place of what would not show as itself: control characters (a terminal takes orders
// by them), line ends, characters that change the direction of the text around them, and bytes that are no UTF-8.
std::string Printable(absl::string_view text);

}  // namespace snug::core
