// Closes the gap between the best order and the bound by asking for peaks between the two (exact_search.h).
#pragma once

#include <cstdint>

#include "memory/order/order_search.h"

namespace snug::core::memory {

// Runs until the gap is closed or the work is spent. Each question first gets little work, then more: what is too hard
// is left for later, and bounds on both sides of it, which are easier, are asked first.
void CloseGap(int64_t work_limit, OrderSearch* search);

}  // namespace snug::core::memory
