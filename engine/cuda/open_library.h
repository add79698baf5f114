// Opens CUDA's libraries, wherever they lie: in the toolkit's folder, in the system's, or in those of NVIDIA's Python
// packages, of which the loader knows nothing.
//
// Some libraries open others by name while they are used, and then only the loader's own folders count: NVRTC of a
// Python package does not find the file beside it, and cuDNN ends the process if it does not find its parts. So whoever
// opens such a library opens those first, because the loader finds by name whatever is open, wherever it came from.
#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <string>

namespace snug::core::cuda {

// This environment variable lists folders, separated by colons, that are looked in first.
inline constexpr char kFoldersVariable[] = "SNUG_CUDA_LIBRARIES";

struct OpenedLibrary {
  void* handle = nullptr;
  std::string folder;
};

// Looks in those folders, where the loader looks, and in the toolkit's (CUDA_HOME, CUDA_PATH, /usr/local/cuda). Fails
// with NotFound and what the loader says; if there is such a file but it cannot be opened, that is said. Libraries stay
// open.
absl::StatusOr<OpenedLibrary> OpenLibrary(const std::string& file);

// Opens a file that `library` is going to open, from the same folder or where the loader looks. Fails with NotFound, as
// above.
absl::Status OpenBeside(const OpenedLibrary& library, const std::string& file);

}  // namespace snug::core::cuda
