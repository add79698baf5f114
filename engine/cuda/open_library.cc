#include "engine/cuda/open_library.h"

#include <absl/strings/str_cat.h>
#include <absl/strings/str_split.h>
#include <dlfcn.h>
#include <link.h>
#include <unistd.h>

#include <cstdlib>
#include <vector>

#include "engine/base/status.h"

namespace snug::core::cuda {
namespace {

// Opens the first of them that can be opened.
absl::StatusOr<void*> OpenFirst(const std::vector<std::string>& names) {
  std::string problem;
  bool of_a_file = false;  // whether the problem is one of a file that is there
  for (const std::string& name : names) {
    if (void* const handle = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL); handle != nullptr) return handle;
    const char* const said = dlerror();
    const bool is_path = name.find('/') != std::string::npos;
    const bool is_there = is_path && access(name.c_str(), F_OK) == 0;
    if (of_a_file || (is_path && !is_there)) continue;
    problem = said != nullptr ? said : name;
    of_a_file = is_there;
  }
  return absl::NotFoundError(problem);
}

std::string FolderOf(void* handle) {
  const link_map* map = nullptr;
  if (dlinfo(handle, RTLD_DI_LINKMAP, &map) != 0 || map == nullptr) return "";
  const std::string path = map->l_name;
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? "" : path.substr(0, slash);
}

}  // namespace

absl::StatusOr<OpenedLibrary> OpenLibrary(const std::string& file) {
  std::vector<std::string> names;
  if (const char* const folders = std::getenv(kFoldersVariable); folders != nullptr) {
    for (const absl::string_view folder : absl::StrSplit(folders, ':', absl::SkipEmpty())) {
      names.push_back(absl::StrCat(folder, "/", file));
    }
  }
  names.push_back(file);
  for (const char* const variable : {"CUDA_HOME", "CUDA_PATH"}) {
    if (const char* const toolkit = std::getenv(variable); toolkit != nullptr) {
      names.push_back(absl::StrCat(toolkit, "/lib64/", file));
    }
  }
  names.push_back(absl::StrCat("/usr/local/cuda/lib64/", file));
  SNUG_ASSIGN_OR_RETURN(void* const handle, OpenFirst(names));
  return OpenedLibrary{handle, FolderOf(handle)};
}

absl::Status OpenBeside(const OpenedLibrary& library, const std::string& file) {
  std::vector<std::string> names;
  if (!library.folder.empty()) names.push_back(absl::StrCat(library.folder, "/", file));
  names.push_back(file);
  return OpenFirst(names).status();
}

}  // namespace snug::core::cuda
