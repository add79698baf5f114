// Reads options for spatial dimensions: one number for all of them, or one for each.
#pragma once

#include <absl/status/status.h>
#include <absl/strings/string_view.h>
#include <absl/types/span.h>

#include <array>
#include <cstdint>

namespace snug {

inline constexpr int kMaxSpatial = 3;
inline constexpr int64_t kMaxSpatialOption = int64_t{1} << 30;  // keeps (kernel - 1) * dilation far from overflow

// Writes the first `spatial` entries of `to`. If nothing is given, they stay as they are.
absl::Status ReadSpatialOption(absl::string_view option, absl::Span<const int64_t> given, int spatial, int64_t at_least,
                               std::array<int64_t, kMaxSpatial>* to);

}  // namespace snug
