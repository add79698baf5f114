// Makes local moves: it reorders a stretch of the best order around its worst place by exact search, and leaves
// everything around it as it is. It works on orders of any length.
#pragma once

#include <cstdint>

#include "memory/order/order_search.h"

namespace snug::core::memory {

// Goes on for as long as a stretch of 16 to 128 tasks can be improved and work is left.
void ImproveByWindows(int64_t work_limit, OrderSearch* search);

}  // namespace snug::core::memory
