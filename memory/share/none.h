// Strategy `none`: every buffer has its own bytes. It is the baseline, and the truth that every other strategy must
// equal.
#pragma once

#include "memory/problem.h"

namespace snug::core::memory {

Plan PlanNone(const Problem& problem);

}  // namespace snug::core::memory
