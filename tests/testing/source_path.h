// Where the files of the source tree are that tests read. Only one object knows the folder: a compiler's cache then
// serves the tests of every clone.
#pragma once

#include <absl/strings/string_view.h>

#include <string>

namespace snug::core::test {

// Of a path from the top of the tree: "models/mlp.pbtxt". SNUG_SOURCE_DIR in the environment names another tree, where
// the tests were copied to another machine.
std::string SourcePath(absl::string_view path);

}  // namespace snug::core::test
