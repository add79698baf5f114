// Makes options from the name of their message and their text (Options::type and Options::text).
#pragma once

#include <absl/status/statusor.h>
#include <absl/strings/string_view.h>

#include "engine/base/options.h"

namespace snug::proto {

// Fails with InvalidArgument when there is no such message or the text is no such message. An empty type gives no
// options.
absl::StatusOr<core::Options> OptionsFromText(absl::string_view type, absl::string_view text);

}  // namespace snug::proto
