// Local moves: a stretch of the best order around its worst place is ordered anew, by exact search, everything around
// it staying as it is. Works on orders of any length.
#pragma once

#include <cstdint>

#include "memory/order/order_search.h"

namespace snug::memory {

// As long as a stretch of 16 to 128 tasks can be improved, within the work.
void ImproveByWindows(int64_t work_limit, OrderSearch* search);

}  // namespace snug::memory
