#include "engine/train/data/images/image_list.h"

#include <absl/strings/ascii.h>
#include <absl/strings/match.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/str_join.h>

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

#include "engine/base/status.h"
#include "engine/train/data/csv_records.h"
#include "engine/train/data/dataset.h"
#include "engine/train/data/file_bytes.h"

namespace snug::core {
namespace {

namespace fs = std::filesystem;

bool LooksLikeImage(const std::string& name) {
  const std::string lower = absl::AsciiStrToLower(name);
  return absl::EndsWith(lower, ".jpg") || absl::EndsWith(lower, ".jpeg") || absl::EndsWith(lower, ".png");
}

absl::Status CannotRead(const std::string& path, const std::error_code& error) {
  if (error == std::errc::not_a_directory) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": expected a folder with images, found a file"));
  }
  return absl::NotFoundError(absl::StrCat(path, ": ", error.message()));
}

// Names that begin with a dot are not for users: what file managers and version control keep.
bool Hidden(const fs::path& path) { return absl::StartsWith(path.filename().string(), "."); }

absl::StatusOr<std::vector<std::string>> SubfoldersOf(const std::string& directory) {
  std::error_code error;
  std::vector<std::string> names;
  for (fs::directory_iterator it(directory, error), end; !error && it != end; it.increment(error)) {
    std::error_code unreadable;
    if (it->is_directory(unreadable) && !Hidden(it->path())) names.push_back(it->path().filename().string());
  }
  if (error) return CannotRead(directory, error);
  std::sort(names.begin(), names.end());
  return names;
}

// What is no file, a pipe or a device, would be waited for and never end. What is not there is told when it is read.
bool IsFile(const fs::path& path) {
  std::error_code unreadable;
  const fs::file_status status = fs::status(path, unreadable);
  return !fs::exists(status) || fs::is_regular_file(status);
}

absl::Status CheckIsFile(const fs::path& image) {
  if (IsFile(image)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(image.string(), ": expected an image's file, found a pipe or device"));
}

// The folders from the first one down to where a walk is. A link to one of them has everything again in it, and itself.
class FoldersAround {
 public:
  explicit FoldersAround(const fs::path& first) : around_{Real(first)} {}

  absl::Status Enter(const fs::path& folder, int depth) {
    around_.resize(static_cast<size_t>(depth) + 1);
    fs::path real = Real(folder);
    if (std::find(around_.begin(), around_.end(), real) != around_.end()) {
      return absl::InvalidArgumentError(absl::StrCat(folder.string(),
                                                     ": expected a folder with images, found a link to a folder that "
                                                     "it lies in, ",
                                                     real.string(), ": its images would be taken again and again"));
    }
    around_.push_back(std::move(real));
    return absl::OkStatus();
  }

 private:
  static fs::path Real(const fs::path& folder) {
    std::error_code error;
    fs::path real = fs::canonical(folder, error);
    return error ? folder : real;
  }

  std::vector<fs::path> around_;
};

absl::StatusOr<std::vector<std::string>> ImagesIn(const std::string& directory) {
  std::error_code error;
  std::vector<std::string> paths;
  FoldersAround around(directory);
  for (fs::recursive_directory_iterator it(directory, fs::directory_options::follow_directory_symlink, error), end;
       !error && it != end; it.increment(error)) {
    std::error_code unreadable;
    if (it->is_directory(unreadable)) {
      SNUG_RETURN_IF_ERROR(around.Enter(it->path(), it.depth()));
    } else if (!Hidden(it->path()) && LooksLikeImage(it->path().filename().string())) {
      SNUG_RETURN_IF_ERROR(CheckIsFile(it->path()));
      paths.push_back(it->path().string());
    }
  }
  if (error) return CannotRead(directory, error);
  std::sort(paths.begin(), paths.end());
  return paths;
}

// Says which images lie in the directory itself, beside the folders of classes; empty: none do.
absl::StatusOr<std::string> ImagesBesideFolders(const std::string& directory) {
  std::error_code error;
  int64_t count = 0;
  std::string first;
  for (fs::directory_iterator it(directory, error), end; !error && it != end; it.increment(error)) {
    std::error_code unreadable;
    const std::string name = it->path().filename().string();
    if (it->is_directory(unreadable) || Hidden(it->path()) || !LooksLikeImage(name)) continue;
    if (count == 0 || name < first) first = name;
    ++count;
  }
  if (error) return CannotRead(directory, error);
  if (count == 0) return std::string();
  return absl::StrCat("left out: ", count, count == 1 ? " image" : " images", " in ", directory,
                      " itself, beside the folders of classes: ", first, count == 1 ? "" : ", ...");
}

// The label of a class's name; `where` begins the error.
absl::StatusOr<int64_t> LabelOf(const std::string& name, const std::vector<std::string>& classes,
                                const std::string& where) {
  const auto found = std::lower_bound(classes.begin(), classes.end(), name);
  if (found != classes.end() && *found == name) return found - classes.begin();
  constexpr size_t kShown = 8;
  const std::vector<std::string> shown(classes.begin(), classes.begin() + std::min(kShown, classes.size()));
  return absl::InvalidArgumentError(absl::StrCat(where, ": expected one of the ", classes.size(),
                                                 " classes of the training images (", absl::StrJoin(shown, ", "),
                                                 classes.size() > kShown ? ", ..." : "", "), found \"", name, "\""));
}

// All images in a directory, which no folder tells the classes of.
absl::StatusOr<ImageList> ListWithoutLabels(const std::string& directory, const std::vector<std::string>& classes,
                                            std::string why) {
  SNUG_ASSIGN_OR_RETURN(std::vector<std::string> images, ImagesIn(directory));
  if (images.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        directory, ": expected images (.jpg, .jpeg, .png), or a folder for each class with its images, found none"));
  }
  ImageList list{.classes = classes, .entries = {}, .unlabelled = std::move(why)};
  for (std::string& image : images) list.entries.push_back({std::move(image), kIgnoredLabel});
  return list;
}

}  // namespace

absl::StatusOr<ImageList> ListFolders(const std::string& directory, const std::vector<std::string>& classes,
                                      bool may_lack_labels) {
  SNUG_ASSIGN_OR_RETURN(const std::vector<std::string> folders, SubfoldersOf(directory));
  if (may_lack_labels && folders.empty()) {
    return ListWithoutLabels(directory, classes, absl::StrCat(directory, " has no folders"));
  }
  const auto is_class = [&](const std::string& name) {
    return std::binary_search(classes.begin(), classes.end(), name);
  };
  if (may_lack_labels && !classes.empty() && std::none_of(folders.begin(), folders.end(), is_class)) {
    return ListWithoutLabels(directory, classes, absl::StrCat("no folder in ", directory, " has the name of a class"));
  }
  if (folders.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        directory,
        ": expected a folder for each class with its images in it, found no folders; `snug predict` needs none"));
  }
  ImageList list{.classes = classes.empty() ? folders : classes, .entries = {}};
  for (const std::string& folder : folders) {
    const std::string path = absl::StrCat(directory, "/", folder);
    SNUG_ASSIGN_OR_RETURN(const int64_t label, LabelOf(folder, list.classes, path));
    SNUG_ASSIGN_OR_RETURN(std::vector<std::string> images, ImagesIn(path));
    if (images.empty()) {
      return absl::InvalidArgumentError(
          absl::StrCat(path, ": expected images (.jpg, .jpeg, .png) of the class \"", folder, "\", found none"));
    }
    for (std::string& image : images) list.entries.push_back({std::move(image), label});
  }
  SNUG_ASSIGN_OR_RETURN(list.of_no_folder, ImagesBesideFolders(directory));
  return list;
}

absl::StatusOr<ImageList> ListTable(const std::string& path, const std::string& directory,
                                    const std::vector<std::string>& classes, bool may_lack_labels) {
  SNUG_ASSIGN_OR_RETURN(const std::shared_ptr<const FileBytes> file, FileBytes::Open(path));
  CsvRecords records(path, file->text(), ',');
  struct Line {
    CsvField file, label;
  };
  std::vector<Line> lines;
  bool labelled = true;
  for (bool first = true;; first = false) {
    SNUG_ASSIGN_OR_RETURN(std::vector<CsvField> fields, records.Next());
    if (fields.empty()) break;
    if (first && may_lack_labels && fields.size() == 1) labelled = false;
    if (fields.size() != (labelled ? 2 : 1)) {
      return records.Error(
          fields[0].line, fields[0].column,
          absl::StrCat(labelled ? "expected two fields, a file and its class" : "expected one field, a file, as above",
                       ", found ", fields.size(),
                       labelled && fields.size() == 1 && !may_lack_labels ? "; `snug predict` needs no class" : ""));
    }
    const std::string image = absl::StrCat(directory, "/", fields[0].text);
    std::error_code unreadable;
    if (!fs::exists(image, unreadable)) {
      if (first && !LooksLikeImage(fields[0].text)) continue;
      return records.Error(fields[0].line, fields[0].column, absl::StrCat("expected a file, found no ", image));
    }
    if (!IsFile(image)) {
      return records.Error(fields[0].line, fields[0].column,
                           absl::StrCat("expected an image's file, found ", image, ", which is no file"));
    }
    fields[0].text = image;
    lines.push_back({std::move(fields[0]), labelled ? std::move(fields[1]) : CsvField()});
  }
  if (lines.empty()) return absl::InvalidArgumentError(absl::StrCat(path, ": expected lines FILE,CLASS, found none"));

  ImageList list{.classes = classes, .entries = {}};
  if (!labelled) {
    list.unlabelled = absl::StrCat(path, " has files alone");
    for (Line& line : lines) list.entries.push_back({std::move(line.file.text), kIgnoredLabel});
    return list;
  }
  if (classes.empty()) {
    for (const Line& line : lines) list.classes.push_back(line.label.text);
    std::sort(list.classes.begin(), list.classes.end());
    list.classes.erase(std::unique(list.classes.begin(), list.classes.end()), list.classes.end());
  }
  for (const Line& line : lines) {
    SNUG_ASSIGN_OR_RETURN(
        const int64_t label,
        LabelOf(line.label.text, list.classes, absl::StrCat(path, ":", line.label.line, ":", line.label.column)));
    list.entries.push_back({line.file.text, label});
  }
  return list;
}

}  // namespace snug::core
