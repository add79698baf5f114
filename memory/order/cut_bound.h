// A lower bound for all orders. Just before a task t runs, in whatever order, the tasks that have run form a closed set
// that holds all that t needs and lacks t. The least live bytes of any such set are a minimum cut; no order has a lower
// peak than that and what t writes. Only tasks that could raise the bound are looked at, and first those at which the
// orders so far have their highest peaks.
#pragma once

#include <cstdint>

#include "memory/order/order_search.h"

namespace snug::core::memory {

void RaiseBoundByCuts(int64_t work_limit, OrderSearch* search);

}  // namespace snug::core::memory
