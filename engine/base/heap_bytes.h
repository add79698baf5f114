// The heap of this process, by the C library's own books.
#pragma once

#include <cstdint>

namespace snug {

// Bytes that malloc has from the system at the moment, whether handed out or free; 0 where the C library does not tell.
int64_t HeapBytes();

}  // namespace snug
