// The table of element types, from which everything else is derived. A new dtype is a new line here; ops opt in.
#pragma once

#include <absl/strings/string_view.h>

#include <cstdint>
#include <optional>

#include "engine/base/bfloat16.h"

namespace snug::core {

//       enumerator  name        C++ type
#define SNUG_DTYPES(X)               \
  X(kFloat32, "float32", float)      \
  X(kBFloat16, "bfloat16", BFloat16) \
  X(kFloat64, "float64", double)     \
  X(kInt32, "int32", int32_t)        \
  X(kInt64, "int64", int64_t)        \
  X(kUint8, "uint8", uint8_t)

enum class DType : uint8_t {
#define SNUG_ENUMERATOR(enumerator, name, type) enumerator,
  SNUG_DTYPES(SNUG_ENUMERATOR)
#undef SNUG_ENUMERATOR
};

int64_t SizeOf(DType dtype);
absl::string_view Name(DType dtype);
std::optional<DType> DTypeFromName(absl::string_view name);

inline bool IsFloating(DType d) { return d == DType::kFloat32 || d == DType::kBFloat16 || d == DType::kFloat64; }

template <class T>
struct DTypeOf;
#define SNUG_DTYPE_OF(enumerator, name, type)         \
  template <>                                         \
  struct DTypeOf<type> {                              \
    static constexpr DType value = DType::enumerator; \
  };
SNUG_DTYPES(SNUG_DTYPE_OF)
#undef SNUG_DTYPE_OF

// The type in which sums of T are kept. bfloat16 is a storage type only, so its sums are kept in float.
template <class T>
struct AccumulatorOf {
  using type = T;
};
template <>
struct AccumulatorOf<BFloat16> {
  using type = float;
};
template <class T>
using Accumulator = typename AccumulatorOf<T>::type;

}  // namespace snug::core
