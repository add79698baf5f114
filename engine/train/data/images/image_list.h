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
  std::string unlabelled = {};    // why no labels are known, each being kIgnoredLabel then; empty: they are
  std::string of_no_folder = {};  // what is said of images beside the folders of classes, which are left out
};

// Each folder in `directory` is a class; the images in it and in its folders are the class's, in the sequence of their
// names. Images beside the folders are left out. `classes`, unless it is empty, are the only ones there may be: those
// of a training, for its evaluation. Where `may_lack_labels`, a directory may be without a folder of a class: all
// images in it, however deep, have no labels then.
absl::StatusOr<ImageList> ListFolders(const std::string& directory, const std::vector<std::string>& classes = {},
                                      bool may_lack_labels = false);

// A table with two columns, the file's name within `directory` and its class; a first line `file,label` (or the like)
// is a heading if no file has its name. Where `may_lack_labels`, it may have the first column alone.
absl::StatusOr<ImageList> ListTable(const std::string& path, const std::string& directory,
                                    const std::vector<std::string>& classes = {}, bool may_lack_labels = false);

}  // namespace snug::core
