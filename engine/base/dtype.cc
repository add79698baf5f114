#include "engine/base/dtype.h"

namespace snug::core {

int64_t SizeOf(DType dtype) {
  switch (dtype) {
#define SNUG_SIZE(enumerator, name, type) \
  case DType::enumerator:                 \
    return static_cast<int64_t>(sizeof(type));
    SNUG_DTYPES(SNUG_SIZE)
#undef SNUG_SIZE
  }
  return 0;
}

absl::string_view Name(DType dtype) {
  switch (dtype) {
#define SNUG_NAME_OF(enumerator, name, type) \
  case DType::enumerator:                    \
    return name;
    SNUG_DTYPES(SNUG_NAME_OF)
#undef SNUG_NAME_OF
  }
  return "?";
}

std::optional<DType> DTypeFromName(absl::string_view name) {
#define SNUG_FROM_NAME(enumerator, text, type) \
  if (name == text) return DType::enumerator;
  SNUG_DTYPES(SNUG_FROM_NAME)
#undef SNUG_FROM_NAME
  return std::nullopt;
}

}  // namespace snug::core
