// Sizes as people write them: "1048576", "1e9", "500MB", "8GiB".
#pragma once

#include <absl/status/statusor.h>
#include <absl/strings/string_view.h>

#include <cstdint>
#include <string>

namespace snug {

// B, kB, MB, GB, TB (powers of 1000), KiB, MiB, GiB, TiB (of 1024); in any letter case. `what`, if any, starts the
// error.
absl::StatusOr<int64_t> ParseByteSize(absl::string_view what, const std::string& text);

// "104.1 MB", "9.6 kB", "12 B": of powers of 1000, one decimal.
std::string ByteSize(int64_t bytes);

}  // namespace snug
