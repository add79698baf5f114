// Checks for well-formed UTF-8, as Unicode defines it (no surrogates, nothing overlong).
#pragma once

#include <absl/strings/string_view.h>

#include <cstddef>

namespace snug::core {

// Returns the length of the character that `text` begins with, or 0 when it begins with none.
size_t Utf8Length(absl::string_view text);

bool IsUtf8(absl::string_view text);

}  // namespace snug::core
