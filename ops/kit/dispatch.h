// Calls a kernel template for a dtype that is known at run time:
// `return DispatchFloating(dtype, [&](auto zero) { using T = decltype(zero); ... });`
#pragma once

#include <absl/status/status.h>

#include <cstdint>

#include "engine/base/dtype.h"
#include "engine/base/status.h"

namespace snug::core {

template <class Fn>
absl::Status DispatchFloating(DType dtype, Fn&& fn) {
  switch (dtype) {
    case DType::kFloat32:
      return fn(float{});
    case DType::kBFloat16:
      return fn(BFloat16{});
    case DType::kFloat64:
      return fn(double{});
    default:
      return absl::InternalError("a kernel of floating-point values was given integers");
  }
}

template <class Fn>
absl::Status DispatchInteger(DType dtype, Fn&& fn) {
  switch (dtype) {
    case DType::kInt32:
      return fn(int32_t{});
    case DType::kInt64:
      return fn(int64_t{});
    default:
      return absl::InternalError("a kernel of integers was given something else");
  }
}

template <class Fn>
absl::Status DispatchAny(DType dtype, Fn&& fn) {
  switch (dtype) {
#define SNUG_CASE(enumerator, name, type) \
  case DType::enumerator:                 \
    return fn(type{});
    SNUG_DTYPES(SNUG_CASE)
#undef SNUG_CASE
  }
  return absl::InternalError("unknown dtype");
}

}  // namespace snug::core
