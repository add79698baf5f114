// Which image files there are, and what each shows: from folders, or from a table.
#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <string>
#include <vector>

namespace snug::core {

struct ImageList {
  struct Entry {
    std::string path;
    int64_t label = 0;
  };
  std::vector<std::string> classes;  // by label, sorted by name
  std::vector<Entry> entries;
};

// Each folder in `directory` is a class; the images in it and in its folders are the class's, in the sequence of their
// names. `classes`, unless it is empty, are the only ones there may be: those of a training, for its evaluation.
absl::StatusOr<ImageList> ListFolders(const std::string& directory, const std::vector<std::string>& classes = {});

// A table with two columns, the file's name within `directory` and its class; a first line `file,label` (or the like)
// is a heading if no file has its name.
absl::StatusOr<ImageList> ListTable(const std::string& path, const std::string& directory,
                                    const std::vector<std::string>& classes = {});

}  // namespace snug::core
