#include "engine/base/text/byte_size.h"

#include <absl/strings/ascii.h>
#include <absl/strings/match.h>
#include <absl/strings/numbers.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/str_format.h>

namespace snug::core {
namespace {

struct Unit {
  absl::string_view name;
  double bytes;
};

constexpr Unit kUnits[] = {{"", 1},      {"B", 1},      {"kB", 1e3},        {"MB", 1e6},     {"GB", 1e9},
                           {"TB", 1e12}, {"KiB", 1024}, {"MiB", 1048576.0}, {"GiB", 0x1p30}, {"TiB", 0x1p40}};

// Returns the length of the number that the text begins with: "8", "1.5", "1e9".
size_t NumberLength(absl::string_view text) {
  const auto skip_digits = [text](size_t at) {
    while (at < text.size() && absl::ascii_isdigit(static_cast<unsigned char>(text[at]))) ++at;
    return at;
  };
  size_t length = skip_digits(0);
  if (length < text.size() && text[length] == '.') length = skip_digits(length + 1);
  if (length == text.size() || absl::ascii_tolower(static_cast<unsigned char>(text[length])) != 'e') return length;
  size_t digits = length + 1;
  if (digits < text.size() && (text[digits] == '+' || text[digits] == '-')) ++digits;
  const size_t end = skip_digits(digits);
  return end > digits ? end : length;
}

}  // namespace

absl::StatusOr<int64_t> ParseByteSize(absl::string_view what, const std::string& text) {
  const size_t length = NumberLength(text);
  const absl::string_view unit_name = absl::StripAsciiWhitespace(absl::string_view(text).substr(length));
  double number = 0;
  if (length > 0 && absl::SimpleAtod(text.substr(0, length), &number)) {
    for (const Unit& unit : kUnits) {
      const double bytes = number * unit.bytes;
      if (absl::EqualsIgnoreCase(unit.name, unit_name) && bytes < 0x1p62 && (bytes >= 1 || number == 0)) {
        return static_cast<int64_t>(bytes);
      }
    }
  }
  return absl::InvalidArgumentError(absl::StrCat(
      what, what.empty() ? "" : ": ",
      "expected a number of bytes, or one with a unit (kB, MB, GB, TB, KiB, MiB, GiB, TiB), found \"", text, "\""));
}

std::string ByteSize(int64_t bytes) {
  constexpr double kLeast = 999.95;  // would be shown as 1000.0, so it goes to the next unit
  double number = static_cast<double>(bytes);
  if (number < 1000) return absl::StrCat(bytes, " B");
  for (const absl::string_view unit : {"kB", "MB"}) {
    number /= 1000;
    if (number < kLeast) return absl::StrFormat("%.1f %s", number, unit);
  }
  return absl::StrFormat("%.1f GB", number / 1000);
}

}  // namespace snug::core
