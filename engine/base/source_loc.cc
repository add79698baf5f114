#include "engine/base/source_loc.h"

#include <absl/strings/str_cat.h>

namespace snug {

std::string SourceLoc::ToString() const {
  if (file == nullptr) return "";
  if (line == 0) return *file;
  return absl::StrCat(*file, ":", line, ":", column);
}

}  // namespace snug
