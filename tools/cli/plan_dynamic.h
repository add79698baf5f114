// What `snug plan --memory=dynamic` shows: no addresses, but what is live when, and how much the allocator will
// reserve.
#pragma once

#include <cstdint>
#include <string>

#include "engine/compile/memory/memory_report.h"
#include "engine/compile/pipeline.h"

namespace snug::core::cli {

std::string DynamicPlanText(const Compiled& compiled, const MemoryReport& report, int64_t top);
std::string DynamicPlanJson(const Compiled& compiled, const MemoryReport& report, int64_t top);

}  // namespace snug::core::cli
