// The text form of placement problems that public instance collections use, one buffer a line:
//
//   id,lower,upper,size
//   b1,0,3,4
//
// Lifetimes are half-open: [lower, upper). The columns may come in any order. `alignment` (default 1) and `gaps` ("3-5
// 8-9", half-open) are optional; other columns are ignored.
#pragma once

#include <absl/status/statusor.h>
#include <absl/strings/string_view.h>

#include <string>
#include <vector>

#include "memory/problem.h"

namespace snug::core::memory {

// `path` only appears in messages.
absl::StatusOr<Problem> ParseCsv(absl::string_view text, absl::string_view path);

// Returns lines of "id,offset".
std::string OffsetsCsv(const std::vector<std::string>& names, const Plan& plan);

}  // namespace snug::core::memory
