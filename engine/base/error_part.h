// Says which part of a layer an error is about. It travels beside the message, so that whoever knows where each part
// was written can point there without reading the text.
//
//   return OptionError("axis", "expected 0 to 3, found 7");                    // deep inside, where no place is known
//   if (const std::optional<ErrorPart> part = PartOf(status)) Locate(*part);   // and where the places are
#pragma once

#include <absl/status/status.h>
#include <absl/strings/string_view.h>

#include <optional>
#include <string>

namespace snug::core {

struct ErrorPart {
  enum class Kind : char { kOption = 'o', kInput = 'i', kParameter = 'p' };
  Kind kind = Kind::kOption;
  std::string name;  // for options and parameters
  int index = 0;     // for inputs, and for entries of a repeated option

  friend bool operator==(const ErrorPart&, const ErrorPart&) = default;
};

// Returns the same error, marked as being about this part. Its message stays the same, and Annotate keeps the mark.
absl::Status About(const ErrorPart& part, absl::Status status);
std::optional<ErrorPart> PartOf(const absl::Status& status);

// Returns InvalidArgument `option "axis": <message>`, marked as being about the option.
absl::Status OptionError(absl::string_view option, absl::string_view message);

}  // namespace snug::core
