#include "engine/train/checkpoint/element_type.h"

#include <absl/strings/str_cat.h>

namespace snug::core::checkpoint {

int64_t SizeOf(ElementType type) {
#define SNUG_SIZE(enumerator, name, bytes) bytes,
  static constexpr int64_t kSizes[] = {SNUG_ELEMENT_TYPES(SNUG_SIZE)};
#undef SNUG_SIZE
  return kSizes[static_cast<size_t>(type)];
}

absl::string_view Name(ElementType type) {
#define SNUG_NAME(enumerator, name, bytes) name,
  static constexpr absl::string_view kNames[] = {SNUG_ELEMENT_TYPES(SNUG_NAME)};
#undef SNUG_NAME
  return kNames[static_cast<size_t>(type)];
}

std::optional<ElementType> ElementTypeFromName(absl::string_view text) {
#define SNUG_FROM_NAME(enumerator, name, bytes) \
  if (text == name) return ElementType::enumerator;
  SNUG_ELEMENT_TYPES(SNUG_FROM_NAME)
#undef SNUG_FROM_NAME
  return std::nullopt;
}

std::string ElementTypeNames() {
  std::string names;
#define SNUG_APPEND(enumerator, name, bytes) absl::StrAppend(&names, names.empty() ? "" : ", ", name);
  SNUG_ELEMENT_TYPES(SNUG_APPEND)
#undef SNUG_APPEND
  return names;
}

ElementType ElementTypeOf(DType dtype) {
  switch (dtype) {
    case DType::kFloat32:
      return ElementType::kF32;
    case DType::kBFloat16:
      return ElementType::kBF16;
    case DType::kFloat64:
      return ElementType::kF64;
    case DType::kInt32:
      return ElementType::kI32;
    case DType::kInt64:
      return ElementType::kI64;
    case DType::kUint8:
      return ElementType::kU8;
  }
  return ElementType::kU8;
}

std::optional<DType> DTypeOf(ElementType type) {
  for (const DType dtype :
       {DType::kFloat32, DType::kBFloat16, DType::kFloat64, DType::kInt32, DType::kInt64, DType::kUint8}) {
    if (ElementTypeOf(dtype) == type) return dtype;
  }
  return std::nullopt;
}

}  // namespace snug::core::checkpoint
