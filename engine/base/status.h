// Status macros and checks. Errors that a model, a file, a device or memory can cause are absl::Status; SNUG_CHECK is
// for our own bugs only. Deep code says what it expected and what it found; the layer that knows the node or the line
// adds the place, once (Annotate).
#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>
#include <absl/strings/string_view.h>

#include <utility>

namespace snug::core {

// Returns the same error with `prefix: ` before its message. OK stays OK.
absl::Status Annotate(const absl::Status& status, absl::string_view prefix);

namespace internal {
[[noreturn]] void CheckFailed(const char* file, int line, const char* condition, absl::string_view message);
inline absl::Status ToStatus(absl::Status status) { return status; }
template <class T>
absl::Status ToStatus(absl::StatusOr<T>&& value) {
  return std::move(value).status();
}
}  // namespace internal
}  // namespace snug::core

#define SNUG_CONCAT_INNER(a, b) a##b
#define SNUG_CONCAT(a, b) SNUG_CONCAT_INNER(a, b)

#define SNUG_RETURN_IF_ERROR(expression)                                     \
  do {                                                                       \
    absl::Status snug_status = ::snug::core::internal::ToStatus(expression); \
    if (!snug_status.ok()) return snug_status;                               \
  } while (false)

#define SNUG_ASSIGN_OR_RETURN(declaration, expression) \
  SNUG_ASSIGN_OR_RETURN_INNER(SNUG_CONCAT(snug_or_, __LINE__), declaration, expression)
#define SNUG_ASSIGN_OR_RETURN_INNER(temporary, declaration, expression) \
  auto temporary = (expression);                                        \
  if (!temporary.ok()) return std::move(temporary).status();            \
  declaration = *std::move(temporary)

#define SNUG_CHECK(condition)    \
  if (!(condition)) [[unlikely]] \
  ::snug::core::internal::CheckFailed(__FILE__, __LINE__, #condition, "")
#define SNUG_CHECK_MSG(condition, message) \
  if (!(condition)) [[unlikely]]           \
  ::snug::core::internal::CheckFailed(__FILE__, __LINE__, #condition, message)
#define SNUG_CHECK_OK(expression)                                                                  \
  do {                                                                                             \
    absl::Status snug_status = ::snug::core::internal::ToStatus(expression);                       \
    if (!snug_status.ok())                                                                         \
      ::snug::core::internal::CheckFailed(__FILE__, __LINE__, #expression, snug_status.message()); \
  } while (false)
