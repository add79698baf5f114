#include "engine/base/status.h"

#include <absl/strings/cord.h>
#include <absl/strings/str_cat.h>

#include <cstdio>
#include <cstdlib>

namespace snug::core {

absl::Status Annotate(const absl::Status& status, absl::string_view prefix) {
  if (status.ok()) return status;
  absl::Status annotated(status.code(), absl::StrCat(prefix, ": ", status.message()));
  status.ForEachPayload([&](absl::string_view url, const absl::Cord& payload) { annotated.SetPayload(url, payload); });
  return annotated;
}

namespace internal {
void CheckFailed(const char* file, int line, const char* condition, absl::string_view message) {
  std::fprintf(stderr, "%s:%d: internal error: %s%s%.*s\n", file, line, condition, message.empty() ? "" : ": ",
               static_cast<int>(message.size()), message.data());
  std::abort();
}
}  // namespace internal
}  // namespace snug::core
