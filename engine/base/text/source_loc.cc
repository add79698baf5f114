#include "engine/base/text/source_loc.h"

#include <absl/strings/str_cat.h>

namespace snug::core {

std::string SourceLoc::ToString() const {
  if (file == nullptr) return "";
  if (line == 0) return *file;
  if (column == 0) return absl::StrCat(*file, ":", line);
  return absl::StrCat(*file, ":", line, ":", column);
}

absl::Status At(const SourceLoc& loc, const absl::Status& status) {
  if (status.ok()) return status;
  const std::string place = loc.ToString();
  return absl::Status(status.code(), absl::StrCat(place, place.empty() ? "" : ": ", status.message(),
                                                  loc.trace ? absl::StrCat(" (", *loc.trace, ")") : ""));
}

}  // namespace snug::core
