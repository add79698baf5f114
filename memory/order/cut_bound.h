// A lower bound for all orders: whatever the order, just before task t some closed set has run that holds all that t
// needs and lacks t. The one with the fewest live bytes is a minimum cut; no order has a lower peak than that and what
// t writes. Only tasks that could raise the bound are looked at, those that the orders so far have highest first.
#pragma once

#include <cstdint>

#include "memory/order/order_search.h"

namespace snug::memory {

void RaiseBoundByCuts(int64_t work_limit, OrderSearch* search);

}  // namespace snug::memory
