// Orders made of cuts. At the worst task of an order, the closed set with the fewest live bytes that lets it run is run
// first, then that task, then the rest; and so on in both parts, each between what is fixed around it.
#pragma once

#include <cstdint>

#include "memory/order/order_search.h"

namespace snug::memory {

// Improves the best order as long as that succeeds, within the work.
void ImproveByCuts(int64_t work_limit, OrderSearch* search);

}  // namespace snug::memory
