// What the machine could still give without swapping; -1: unknown. Linux promises more than it has and kills the
// process that takes it at its word, so whoever takes much asks here before.
#pragma once

#include <cstdint>

namespace snug::memory {

int64_t AvailableBytes();

}  // namespace snug::memory
