// Closes the gap between the best order and the bound by asking for peaks between the two (exact_search.h).
#pragma once

#include <cstdint>

#include "memory/order/order_search.h"

namespace snug::memory {

// Until the gap is closed or the work is spent. First with little work for each question, then with more: what is too
// hard to answer is left for later, and its neighbours on both sides, which are easier, are asked.
void CloseGap(int64_t work_limit, OrderSearch* search);

}  // namespace snug::memory
