// CUDA's libraries as this process has them: which were found, which version, and what their error codes mean.
//
//   SNUG_ASSIGN_OR_RETURN(const std::shared_ptr<const cuda::Api> api, cuda::Api::Load());
//
// Knows no CUDA header: who calls the libraries includes cuda_table.h too.
#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>
#include <absl/strings/string_view.h>

#include <memory>
#include <string>
#include <vector>

namespace snug::cuda {

struct Table;

enum class Library { kDriver, kRuntime, kCublasLt, kCudnn, kNvrtc };

// What became of one library.
struct LibraryState {
  Library library = Library::kDriver;
  std::string file;     // its name as dlopen takes it; empty: linked statically
  std::string version;  // "13.0"; empty: not there
  std::string problem;  // why it cannot be used, and what to do; empty: it can
};

// Immutable. Libraries that were opened stay open to the end of the process, as they insist on.
class Api {
 public:
  // The driver must be there and be recent enough; what is wrong with the others is said when they are needed.
  // FailedPrecondition otherwise. SNUG_CUDA_LIBRARIES may list folders, separated by colons, to look in first.
  static absl::StatusOr<std::shared_ptr<const Api>> Load();

  // For tests, with entries of their own.
  Api(const Table& table, std::vector<LibraryState> libraries);
  ~Api();

  const Table& table() const { return *table_; }
  const std::vector<LibraryState>& libraries() const { return libraries_; }
  // FailedPrecondition, with the reason, where the library cannot be used.
  absl::Status Require(Library library) const;

  // The error `code` of `function`, as a sentence: what was being done, the error's name and text, what to do.
  absl::Status Error(Library library, absl::string_view function, int code, absl::string_view doing) const;

 private:
  std::unique_ptr<const Table> table_;
  std::vector<LibraryState> libraries_;
};

// Every library, found or not. Opens them, but no device.
std::vector<LibraryState> FindLibraries();

absl::string_view Name(Library library);  // "the CUDA driver", "cuDNN"

}  // namespace snug::cuda
