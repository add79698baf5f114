// What this process may use of the machine, and what it has of it.
#pragma once

#include <cstdint>

namespace snug::core {

// Returns the number of processors that this process may use, at least 1.
int AvailableProcessors();

// Returns the bytes that malloc has from the system at the moment, whether handed out or free; 0 where the C library
// does not tell.
int64_t HeapBytes();

// Returns what the machine could still give without swapping, or -1 when that is unknown. Linux promises more than it
// has and kills the process that believes it, so whoever takes much asks here first.
int64_t AvailableBytes();

}  // namespace snug::core
