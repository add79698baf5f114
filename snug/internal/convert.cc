#include "snug/internal/convert.h"

#include <absl/strings/str_cat.h>

#include <cstring>
#include <type_traits>
#include <utility>

namespace snug {
inline namespace v0 {
namespace embed {
namespace {

using core::BFloat16;  // as SNUG_DTYPES names it

template <class From, class To>
absl::Status ConvertAll(absl::string_view name, const From* from, int64_t n, To* to) {
  if constexpr (std::is_same_v<From, To>) {
    std::memcpy(to, from, static_cast<size_t>(n) * sizeof(To));
  } else if constexpr (std::is_integral_v<From> && std::is_integral_v<To>) {
    for (int64_t i = 0; i < n; ++i) {
      if (!std::in_range<To>(from[i])) {
        return absl::InvalidArgumentError(absl::StrCat("\"", name, "\": element ", i, " is ", from[i], ", which no ",
                                                       core::Name(core::DTypeOf<To>::value), " can be"));
      }
      to[i] = static_cast<To>(from[i]);
    }
  } else if constexpr (std::is_integral_v<To>) {
    return absl::InvalidArgumentError(absl::StrCat("\"", name, "\": expected integers for ",
                                                   core::Name(core::DTypeOf<To>::value), ", found ",
                                                   core::Name(core::DTypeOf<From>::value)));
  } else {
    for (int64_t i = 0; i < n; ++i) to[i] = static_cast<To>(static_cast<core::Accumulator<To>>(from[i]));
  }
  return absl::OkStatus();
}

template <class From>
absl::Status ConvertFrom(absl::string_view name, const From* from, int64_t n, core::DType to, void* out) {
  switch (to) {
#define SNUG_CASE(enumerator, text, type) \
  case core::DType::enumerator:           \
    return ConvertAll(name, from, n, static_cast<type*>(out));
    SNUG_DTYPES(SNUG_CASE)
#undef SNUG_CASE
  }
  return absl::InternalError("an unknown dtype");
}

}  // namespace

Status FromEngine(const absl::Status& status) {
  return status.ok() ? Status() : Status(static_cast<StatusCode>(status.code()), std::string(status.message()));
}

absl::Status ToEngine(const Status& status) {
  return absl::Status(static_cast<absl::StatusCode>(status.code()), status.message());
}

Result<Tensor> ToTensor(std::string_view name, const absl::StatusOr<core::ValueView>& view) {
  if (!view.ok()) return FromEngine(view.status());
  if (!view->type->layout.plain()) {
    return Status(StatusCode::kUnimplemented,
                  absl::StrCat("\"", View(name), "\" is kept as ", view->type->ToString(), ", which is not row-major"));
  }
  return ToTensor(*view->type, view->data);
}

absl::Status ConvertElements(std::string_view name, const Numbers& from, core::DType to, void* out) {
  switch (ToEngine(from.dtype())) {
#define SNUG_CASE(enumerator, text, type) \
  case core::DType::enumerator:           \
    return ConvertFrom(View(name), static_cast<const type*>(from.data()), from.size(), to, out);
    SNUG_DTYPES(SNUG_CASE)
#undef SNUG_CASE
  }
  return absl::InvalidArgumentError(absl::StrCat("\"", View(name), "\": an unknown dtype"));
}

absl::Status Store(std::string_view name, const core::ValueView& view, const Numbers& numbers) {
  if (numbers.size() != view.type->num_elements()) {
    return absl::InvalidArgumentError(absl::StrCat("\"", View(name), "\" ", view.type->ToString(), ": expected ",
                                                   view.type->num_elements(), " numbers, found ", numbers.size()));
  }
  return ConvertElements(name, numbers, view.type->dtype, view.data);
}

}  // namespace embed
}  // namespace v0
}  // namespace snug
