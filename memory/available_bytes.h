// Returns what the machine could still give without swapping, or -1 when that is unknown. Linux promises more than it
// has and kills the process that believes it, so whoever takes much asks here first.
#pragma once

#include <cstdint>

namespace snug::core::memory {

int64_t AvailableBytes();

}  // namespace snug::core::memory
