#include "engine/base/error_part.h"

#include <absl/strings/cord.h>
#include <absl/strings/numbers.h>
#include <absl/strings/str_cat.h>

#include <utility>

namespace snug::core {
namespace {

constexpr absl::string_view kPayload = "snug.error_part";  // its value: the kind's letter, the index, ":", and the name

}  // namespace

absl::Status About(const ErrorPart& part, absl::Status status) {
  if (status.ok()) return status;
  const char kind = static_cast<char>(part.kind);
  status.SetPayload(kPayload, absl::Cord(absl::StrCat(absl::string_view(&kind, 1), part.index, ":", part.name)));
  return status;
}

std::optional<ErrorPart> PartOf(const absl::Status& status) {
  const absl::optional<absl::Cord> payload = status.GetPayload(kPayload);
  if (!payload.has_value() || payload->empty()) return std::nullopt;
  const std::string text(*payload);
  ErrorPart part{.kind = static_cast<ErrorPart::Kind>(text[0])};
  const size_t colon = text.find(':');
  if (colon == std::string::npos || !absl::SimpleAtoi(text.substr(1, colon - 1), &part.index)) return std::nullopt;
  part.name = text.substr(colon + 1);
  return part;
}

absl::Status OptionError(absl::string_view option, absl::string_view message) {
  return About({.kind = ErrorPart::Kind::kOption, .name = std::string(option)},
               absl::InvalidArgumentError(absl::StrCat("option \"", option, "\": ", message)));
}

}  // namespace snug::core
