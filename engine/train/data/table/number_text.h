// Which texts of a table are numbers.
#pragma once

#include <absl/strings/string_view.h>

namespace snug::core {

// Reads a decimal number, blanks around it left out. False where the text is none: "nan", "inf" and "0x10" are texts. A
// number that is too large is infinite.
bool ParseNumber(absl::string_view text, double* number);

bool IsNumberText(absl::string_view text);

}  // namespace snug::core
