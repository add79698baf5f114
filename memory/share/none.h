// Strategy `none`: every buffer its own bytes. The baseline, and the truth that every other strategy must equal.
#pragma once

#include "memory/problem.h"

namespace snug::memory {

Plan PlanNone(const Problem& problem);

}  // namespace snug::memory
