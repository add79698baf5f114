// Makes text of others, as names in files of data, fit to be shown: in a terminal, a table or a document.
#pragma once

#include <absl/strings/string_view.h>

#include <cstddef>
#include <string>

namespace snug::core {

// Returns the text with escapes in place of what would not show as itself: control characters (a terminal takes orders
// by them), line ends, characters that change the direction of the text around them, byte order marks, and bytes that
// are no UTF-8. Of a text with more than `most` characters it has the first, and "..." after them.
std::string Printable(absl::string_view text, size_t most = absl::string_view::npos);

// The same between quotes, for messages; quotes and backslashes in it have a backslash before them.
std::string Shown(absl::string_view text, size_t most = 80);

}  // namespace snug::core
