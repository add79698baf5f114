// The types that parameters, and what optimizers keep for them, are kept in.
#pragma once

#include "engine/base/dtype.h"

namespace snug::core {

// The type that an update of such a parameter computes in, and that of its learning rate.
inline DType ComputedIn(DType parameter) { return parameter == DType::kBFloat16 ? DType::kFloat32 : parameter; }

// Whether what is kept in a type is rounded.
inline bool IsNarrow(DType kept) { return kept == DType::kBFloat16 || kept == DType::kUint8; }

}  // namespace snug::core
