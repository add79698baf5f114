// What `snug plan` is made of beside plan.cc.
#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <string>

#include "engine/compile/memory/memory_report.h"
#include "engine/compile/pipeline.h"
#include "tools/picture/picture.h"

namespace snug::core::cli {

// What `snug plan --memory=dynamic` shows: no addresses, but what is live when, and how much the allocator will
// reserve.
std::string DynamicPlanText(const Compiled& compiled, const MemoryReport& report, int64_t top);
std::string DynamicPlanJson(const Compiled& compiled, const MemoryReport& report, int64_t top);

// Draws the plan that `compiled` has and, with `beside`, those of the other strategies that need no long search.
absl::StatusOr<Picture> MakePicture(const Compiled& compiled, const MemoryOptions& options, bool beside);

}  // namespace snug::core::cli
