// Sizes in the form that people write: "1048576", "1e9", "500MB", "8GiB".
#pragma once

#include <absl/status/statusor.h>
#include <absl/strings/string_view.h>

#include <cstdint>
#include <string>

namespace snug::core {

// Accepts B, kB, MB, GB, TB (powers of 1000) and KiB, MiB, GiB, TiB (powers of 1024) in any letter case. If `what` is
// given, the error begins with it.
absl::StatusOr<int64_t> ParseByteSize(absl::string_view what, const std::string& text);

// Returns "104.1 MB", "9.6 kB", "12 B": powers of 1000, with one decimal.
std::string ByteSize(int64_t bytes);

}  // namespace snug::core
