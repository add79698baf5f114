#include "tests/testing/source_path.h"

#include <absl/strings/str_cat.h>

#include <cstdlib>

namespace snug::core::test {

std::string SourcePath(absl::string_view path) {
  const char* const elsewhere = std::getenv("SNUG_SOURCE_DIR");
  return absl::StrCat(elsewhere == nullptr ? SNUG_SOURCE_DIR : elsewhere, "/", path);
}

}  // namespace snug::core::test
