// Where the public instances lie: $SNUG_SHARED, else `shared` beside the repository. Tests that need them are skipped
// where they are not.
#pragma once

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "tests/testing/source_path.h"

namespace snug::core::memory {

inline std::string SharedData(const std::string& path) {
  const char* const shared = std::getenv("SNUG_SHARED");
  return (shared != nullptr ? std::string(shared) : test::SourcePath("../shared")) + "/data/" + path;
}

// The files of a folder, sorted.
inline std::vector<std::string> FilesIn(const std::string& folder) {
  std::vector<std::string> files;
  if (!std::filesystem::is_directory(folder)) return files;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) files.push_back(entry.path().string());
  std::sort(files.begin(), files.end());
  return files;
}

}  // namespace snug::core::memory
