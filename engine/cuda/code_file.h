// Keeps compiled code in a folder, in a file for each key. The file has the key in it and a hash over all, so that
// neither another key of the same name nor a file that was cut off passes for it.
#pragma once

#include <absl/strings/string_view.h>

#include <optional>
#include <string>

namespace snug::core::cuda {

// Says whether nobody but the user (and root) can put code into the folder: it is there, is theirs, and nobody else may
// write to it. This matters because the code runs on the device unasked.
bool IsPrivate(const std::string& folder);

// Returns nothing if the code is not there or not whole, or if the folder is not private or has no name.
std::optional<std::string> ReadCode(const std::string& folder, absl::string_view key);

// Makes the folder; the file appears whole or not at all. Nothing is written where that fails or the folder is not
// private.
void WriteCode(const std::string& folder, absl::string_view key, absl::string_view code);

// Returns the file in which the code is kept.
std::string CodePath(const std::string& folder, absl::string_view key);

}  // namespace snug::core::cuda
