// Which commit of the repository this program was built from. The definition is written at every build, by
// cmake/SnugCommit.cmake.
#pragma once

namespace snug::core::cli {

// Its first twelve digits, with "-dirty" where files were changed beside it; empty where nobody knew.
const char* SourceCommit();

}  // namespace snug::core::cli
