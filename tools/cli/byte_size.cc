#include "tools/cli/byte_size.h"

#include <absl/strings/ascii.h>
#include <absl/strings/numbers.h>
#include <absl/strings/str_cat.h>

#include <cctype>

namespace snug::cli {
namespace {

struct Unit {
  absl::string_view name;  // in lower case
  double bytes;
};

constexpr Unit kUnits[] = {{"", 1},      {"b", 1},      {"kb", 1e3},        {"mb", 1e6},     {"gb", 1e9},
                           {"tb", 1e12}, {"kib", 1024}, {"mib", 1048576.0}, {"gib", 0x1p30}, {"tib", 0x1p40}};

}  // namespace

absl::StatusOr<int64_t> ParseByteSize(absl::string_view what, const std::string& text) {
  size_t digits = 0;
  while (digits < text.size() && (std::isdigit(static_cast<unsigned char>(text[digits])) || text[digits] == '.'))
    ++digits;
  const std::string unit_name = absl::AsciiStrToLower(absl::StripAsciiWhitespace(text.substr(digits)));
  double number = 0;
  if (digits > 0 && absl::SimpleAtod(text.substr(0, digits), &number)) {
    for (const Unit& unit : kUnits) {
      const double bytes = number * unit.bytes;
      if (unit.name == unit_name && bytes < 0x1p62) return static_cast<int64_t>(bytes);
    }
  }
  return absl::InvalidArgumentError(absl::StrCat(
      what, ": expected a number of bytes, or one with a unit (kB, MB, GB, TB, KiB, MiB, GiB, TiB), found \"", text,
      "\""));
}

}  // namespace snug::cli
