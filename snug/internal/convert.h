// Converts between the engine's types and the public ones.
#pragma once

#include <absl/status/status.h>

#include <exception>
#include <new>
#include <string>
#include <utility>

#include "snug/internal/engine.h"
#include "snug/status.h"
#include "snug/tensor.h"

namespace snug {
inline namespace v0 {
namespace embed {

Status FromEngine(const absl::Status& status);
absl::Status ToEngine(const Status& status);

inline DType FromEngine(core::DType dtype) { return static_cast<DType>(dtype); }
inline core::DType ToEngine(DType dtype) { return static_cast<core::DType>(dtype); }
#define SNUG_SAME(enumerator, name, type) \
  static_assert(static_cast<int>(core::DType::enumerator) == static_cast<int>(DType::enumerator));
SNUG_DTYPES(SNUG_SAME)
#undef SNUG_SAME

inline Tensor ToTensor(const core::ValueType& type, void* data) {
  return {data, FromEngine(type.dtype), {type.shape.dims().data(), type.shape.dims().size()}};
}
// Fails with Unimplemented where the bytes are not row-major.
Result<Tensor> ToTensor(std::string_view name, const absl::StatusOr<core::ValueView>& view);

// `name` is for the error. A floating-point number never becomes an integer, and an integer that the type cannot hold
// is an error.
absl::Status ConvertElements(std::string_view name, const Numbers& from, core::DType to, void* out);

// Stores the caller's numbers as all elements of the view.
absl::Status Store(std::string_view name, const core::ValueView& view, const Numbers& numbers);

inline absl::string_view View(std::string_view text) { return {text.data(), text.size()}; }

// Runs `function`, which returns something that a Status converts to. No exception leaves it.
template <class Function>
auto Guarded(Function&& function) noexcept -> decltype(function()) {
  try {
    return function();
  } catch (const std::bad_alloc&) {
    return Status(StatusCode::kResourceExhausted, "out of memory");
  } catch (const std::exception& error) {
    return Status(StatusCode::kInternal, error.what());
  } catch (...) {
    return Status(StatusCode::kInternal, "an exception");
  }
}

}  // namespace embed
}  // namespace v0
}  // namespace snug

#define SNUG_EMBED_RETURN_IF_ERROR(expression)                              \
  do {                                                                      \
    if (const absl::Status snug_status = (expression); !snug_status.ok()) { \
      return ::snug::embed::FromEngine(snug_status);                        \
    }                                                                       \
  } while (false)
