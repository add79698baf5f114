// Shows what a file holds in a message: on one line, not too long, and without bytes that a terminal would obey.
#pragma once

#include <absl/strings/string_view.h>

#include <cstddef>
#include <string>

namespace snug::core {

// Writes control characters and those that nobody sees (a byte order mark, marks of direction) as \u001b, and bytes
// that are no UTF-8 as \xff. Of a text with more than `most` characters it has the first, and "..." after them.
std::string Printable(absl::string_view text, size_t most = 80);

// The same between quotes; quotes and backslashes in it have a backslash before them.
std::string Shown(absl::string_view text, size_t most = 80);

}  // namespace snug::core
