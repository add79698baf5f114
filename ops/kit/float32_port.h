// The element type behind PortType::kFloat32: float32, and float64 in a float64 network.
#pragma once

#include <type_traits>

#include "engine/base/dtype.h"

namespace snug::core {

inline DType Float32PortType(DType floating) { return floating == DType::kFloat64 ? DType::kFloat64 : DType::kFloat32; }

// Gives the same type in kernels, from T, the dtype of the node's floating ports. Sums over T are kept in it too.
template <class T>
using Float32Port = std::conditional_t<std::is_same_v<T, double>, double, float>;

}  // namespace snug::core
