// The size of this process's heap, as the C library counts it.
#pragma once

#include <cstdint>

namespace snug::core {

// Returns the bytes that malloc has from the system at the moment, whether handed out or free; 0 where the C library
// does not tell.
int64_t HeapBytes();

}  // namespace snug::core
