// Builds orders out of cuts. It takes the worst task of an order and runs first the closed set with the fewest live
// bytes that lets this task run, then the task, then the rest. It goes on like that in both parts, each between what is
// fixed around it.
#pragma once

#include <cstdint>

#include "memory/order/order_search.h"

namespace snug::core::memory {

// Improves the best order for as long as that succeeds and work is left.
void ImproveByCuts(int64_t work_limit, OrderSearch* search);

}  // namespace snug::core::memory
