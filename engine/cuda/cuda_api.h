// CUDA's libraries as this process has them: which were found, which version, and what their error codes mean.
//
//   SNUG_ASSIGN_OR_RETURN(const std::shared_ptr<const cuda::Api> api, cuda::Api::Load());
//
// This header includes none of CUDA's; who calls the libraries includes cuda_table.h too.
#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>
#include <absl/strings/string_view.h>

#include <memory>
#include <string>
#include <vector>

namespace snug::core::cuda {

struct Table;

enum class Library { kDriver, kRuntime, kCublasLt, kCudnn, kNvrtc };

// What became of one library.
struct LibraryState {
  Library library = Library::kDriver;
  std::string file;     // the name that dlopen takes; empty: linked statically
  std::string version;  // such as "13.0"; empty: the library is not there
  std::string problem;  // why the library cannot be used, and what to do about it; empty: it can be used
};

// Immutable. Libraries that were opened stay open to the end of the process, because they insist on it.
class Api {
 public:
  // Fails with FailedPrecondition if the driver is missing or too old; what is wrong with other libraries is said when
  // they are needed. SNUG_CUDA_LIBRARIES may list folders, separated by colons, that are looked in first.
  static absl::StatusOr<std::shared_ptr<const Api>> Load();

  // Takes a table from the caller instead of from libraries: tests bring pretended ones.
  Api(const Table& table, std::vector<LibraryState> libraries);
  ~Api();

  const Table& table() const { return *table_; }
  const std::vector<LibraryState>& libraries() const { return libraries_; }
  // Fails with FailedPrecondition, and the reason, if the library cannot be used.
  absl::Status Require(Library library) const;

  // Returns the error `code` of `function` as a sentence: what was being done, the error's name and text, what to do.
  absl::Status Error(Library library, absl::string_view function, int code, absl::string_view doing) const;

 private:
  std::unique_ptr<const Table> table_;
  std::vector<LibraryState> libraries_;
};

// Returns every library, found or not. It opens them, but no device.
std::vector<LibraryState> FindLibraries();

absl::string_view Name(Library library);  // such as "the CUDA driver" or "cuDNN"

}  // namespace snug::core::cuda
