// The sequences in which list placers try the items of an instance.
#pragma once

#include <cstdint>
#include <vector>

#include "memory/place/instance.h"

namespace snug::core::memory {

// Each sequence follows a common rule (largest first, longest first, ...) or a mix of them. Items that a rule finds
// equal keep the order of the instance.
int SequenceCount();
std::vector<int32_t> SequenceOf(const Instance& instance, int index);

}  // namespace snug::core::memory
