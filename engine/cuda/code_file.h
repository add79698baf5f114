// Compiled code in a folder: a file for each key, with the key in it, and a hash over all, so that neither another key
// of the same name nor a file that was cut off passes for it.
#pragma once

#include <absl/strings/string_view.h>

#include <optional>
#include <string>

namespace snug::cuda {

// Code runs on the device unasked. Whether nobody but the user (and root) can put some here: the folder is there, is
// theirs, and nobody else may write to it.
bool IsPrivate(const std::string& folder);

// Nothing: it is not there, or not whole. A folder that is not private, or has no name, has nothing.
std::optional<std::string> ReadCode(const std::string& folder, absl::string_view key);

// Makes the folder; the file appears whole or not at all. What cannot be written is not, and nothing where the folder
// is not private.
void WriteCode(const std::string& folder, absl::string_view key, absl::string_view code);

// Where that is.
std::string CodePath(const std::string& folder, absl::string_view key);

}  // namespace snug::cuda
