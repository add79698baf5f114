#include "engine/run/session/value_view.h"

#include <absl/strings/str_cat.h>

namespace snug::core {
namespace {

template <class T>
void Store(absl::Span<const double> values, std::byte* data) {
  T* out = reinterpret_cast<T*>(data);
  for (size_t i = 0; i < values.size(); ++i) out[i] = static_cast<T>(values[i]);
}

template <class T>
std::vector<double> Load(const ValueView& view) {
  const T* in = reinterpret_cast<const T*>(view.data);
  std::vector<double> values(static_cast<size_t>(view.type->num_elements()));
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<double>(in[i]);
  return values;
}

}  // namespace

absl::Status StoreNumbers(absl::string_view name, const ValueView& view, absl::Span<const double> values) {
  if (static_cast<int64_t>(values.size()) != view.type->num_elements()) {
    return absl::InvalidArgumentError(absl::StrCat("\"", name, "\" ", view.type->ToString(), ": expected ",
                                                   view.type->num_elements(), " numbers, found ", values.size()));
  }
  switch (view.type->dtype) {
#define SNUG_CASE(enumerator, text, type) \
  case DType::enumerator:                 \
    Store<type>(values, view.data);       \
    break;
    SNUG_DTYPES(SNUG_CASE)
#undef SNUG_CASE
  }
  return absl::OkStatus();
}

std::vector<double> LoadNumbers(const ValueView& view) {
  switch (view.type->dtype) {
#define SNUG_CASE(enumerator, text, type) \
  case DType::enumerator:                 \
    return Load<type>(view);
    SNUG_DTYPES(SNUG_CASE)
#undef SNUG_CASE
  }
  return {};
}

}  // namespace snug::core
