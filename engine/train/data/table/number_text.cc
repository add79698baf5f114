#include "engine/train/data/table/number_text.h"

#include <absl/strings/ascii.h>
#include <absl/strings/numbers.h>

namespace snug::core {

bool ParseNumber(absl::string_view text, double* number) {
  text = absl::StripAsciiWhitespace(text);
  return text.find_first_not_of("0123456789+-.eE") == absl::string_view::npos && absl::SimpleAtod(text, number);
}

bool IsNumberText(absl::string_view text) {
  double number = 0;
  return ParseNumber(text, &number);
}

}  // namespace snug::core
