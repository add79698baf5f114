// Options of a message that is known by name only, from their own text (Options::type and Options::text).
#pragma once

#include <absl/status/statusor.h>
#include <absl/strings/string_view.h>

#include "engine/base/options.h"

namespace snug::proto {

// InvalidArgument: no such message, or no such text of it. An empty type: no options.
absl::StatusOr<Options> OptionsFromText(absl::string_view type, absl::string_view text);

}  // namespace snug::proto
