// The plain form of an activation behind the op that applies it to its own result: the sweep of the activation's own
// op, so that what is fused has the bits of the two ops.
#pragma once

#include <cstdint>

#include "ops/activation.h"

namespace snug::core {

// Sets y[i] = activation(y[i]).
template <class T>
void ActivateInPlace(int threads, int64_t count, Activation activation, T* y);

}  // namespace snug::core
