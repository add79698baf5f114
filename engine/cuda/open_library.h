// Opens CUDA's libraries, wherever they lie: in the toolkit's folder, in the system's, or in those of NVIDIA's Python
// packages, of which the loader knows nothing.
//
// Some of them open others by name as they are used, and then only the loader's own folders count: NVRTC of a Python
// package does not find the file beside it, and cuDNN ends the process where it does not find its parts. So whoever
// opens such a library opens those first: what is open, the loader finds by name, wherever it came from.
#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <string>

namespace snug::cuda {

// Lists folders, separated by colons, that are looked in first.
inline constexpr char kFoldersVariable[] = "SNUG_CUDA_LIBRARIES";

struct OpenedLibrary {
  void* handle = nullptr;
  std::string folder;
};

// In those folders, where the loader looks, and in the toolkit's (CUDA_HOME, CUDA_PATH, /usr/local/cuda). NotFound,
// with what the loader says; where there is such a file and it cannot be opened, of that. What is opened stays so.
absl::StatusOr<OpenedLibrary> OpenLibrary(const std::string& file);

// A file that `library` is going to open: from the same folder, or where the loader looks. NotFound as above.
absl::Status OpenBeside(const OpenedLibrary& library, const std::string& file);

}  // namespace snug::cuda
