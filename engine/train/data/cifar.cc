#include <absl/strings/ascii.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/str_split.h>

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "engine/base/status.h"
#include "engine/train/data/file_bytes.h"
#include "engine/train/data/sources.h"

namespace snug::core {
namespace {

constexpr int64_t kPixels = 3 * 32 * 32;

struct LabelByte {
  absl::string_view field;
  int64_t offset;  // where it lies in a record
  int64_t classes;
  absl::string_view names_file;
  std::vector<std::string> names = {};  // of the classes, where they are known
};

struct Format {
  absl::string_view name;
  std::vector<LabelByte> labels;
  int64_t record_bytes() const { return static_cast<int64_t>(labels.size()) + kPixels; }
};

Format Cifar10() { return {"CIFAR-10", {{"label", 0, 10, "batches.meta.txt"}}}; }
Format Cifar100() {
  return {"CIFAR-100", {{"label", 1, 100, "fine_label_names.txt"}, {"coarse_label", 0, 20, "coarse_label_names.txt"}}};
}

std::vector<DataField> FieldsOf(const Format& format) {
  std::vector<DataField> fields = {{.name = "image", .type = {.shape = {3, 32, 32}}}};
  for (const LabelByte& label : format.labels) {
    fields.push_back({.name = std::string(label.field),
                      .type = {.dtype = DType::kInt32},
                      .max_value = label.classes,
                      .padding = kIgnoredLabel,
                      .classes = label.names});
  }
  return fields;
}

struct Part {
  std::shared_ptr<const FileBytes> file;
  int64_t first = 0;  // the file's first sample
};

class CifarDataset final : public Dataset {
 public:
  CifarDataset(Format format, std::vector<Part> parts, int64_t samples)
      : Dataset(FieldsOf(format), samples), format_(std::move(format)), parts_(std::move(parts)) {}

  absl::Status Read(int64_t sample, absl::Span<std::byte* const> fields) const override {
    const auto after = std::upper_bound(parts_.begin(), parts_.end(), sample,
                                        [](int64_t s, const Part& part) { return s < part.first; });
    const Part& part = *(after - 1);
    const uint8_t* record = part.file->bytes().data() + (sample - part.first) * format_.record_bytes();
    PixelsToFloats(record + format_.labels.size(), kPixels, fields[0]);
    for (size_t i = 0; i < format_.labels.size(); ++i) {
      *reinterpret_cast<int32_t*>(fields[i + 1]) = record[format_.labels[i].offset];
    }
    return absl::OkStatus();
  }

 private:
  Format format_;
  std::vector<Part> parts_;
};

absl::Status CheckRecords(const FileBytes& file, const Format& format) {
  const int64_t record = format.record_bytes();
  const int64_t rest = file.size() % record;
  if (file.size() == 0 || rest != 0) {
    const int64_t other = format.labels.size() == 1 ? record + 1 : record - 1;
    return file.Error(
        file.size() - rest,
        absl::StrCat("expected ", format.name, " records of ", record, " bytes, found ", rest, " bytes",
                     file.size() > 0 && file.size() % other == 0
                         ? format.labels.size() == 1 ? ": it looks like CIFAR-100" : ": it looks like CIFAR-10"
                         : ""));
  }
  for (int64_t at = 0; at < file.size(); at += record) {
    for (const LabelByte& label : format.labels) {
      const int found = file.bytes()[static_cast<size_t>(at + label.offset)];
      if (found < label.classes) continue;
      return file.Error(at + label.offset, absl::StrCat(label.field, " of record ", at / record, ": expected 0 to ",
                                                        label.classes - 1, ", found ", found));
    }
  }
  return absl::OkStatus();
}

// The names of a label's classes, a line each; none where the file is not there.
absl::StatusOr<std::vector<std::string>> ReadNames(const std::string& path, int64_t classes) {
  std::error_code error;
  if (!std::filesystem::exists(path, error)) return std::vector<std::string>();
  SNUG_ASSIGN_OR_RETURN(const std::shared_ptr<const FileBytes> file, FileBytes::Open(path));
  std::vector<std::string> names;
  for (absl::string_view line : absl::StrSplit(file->text(), '\n')) {
    line = absl::StripAsciiWhitespace(line);
    if (!line.empty()) names.emplace_back(line);
  }
  if (static_cast<int64_t>(names.size()) == classes) return names;
  return file->Error(0, absl::StrCat("expected the names of ", classes, " classes, a line each, found ", names.size()));
}

absl::StatusOr<std::shared_ptr<const Dataset>> OpenFiles(Format format, const std::vector<std::string>& paths,
                                                         const std::string& names) {
  for (LabelByte& label : format.labels) {
    if (names.empty()) break;
    SNUG_ASSIGN_OR_RETURN(label.names, ReadNames(absl::StrCat(names, "/", label.names_file), label.classes));
  }
  if (paths.empty()) return absl::InvalidArgumentError(absl::StrCat(format.name, ": expected a file, found none"));
  std::vector<Part> parts;
  int64_t samples = 0;
  for (const std::string& path : paths) {
    SNUG_ASSIGN_OR_RETURN(std::shared_ptr<const FileBytes> file, FileBytes::Open(path));
    SNUG_RETURN_IF_ERROR(CheckRecords(*file, format));
    const int64_t records = file->size() / format.record_bytes();
    parts.push_back({std::move(file), samples});
    samples += records;
  }
  return std::make_shared<const CifarDataset>(std::move(format), std::move(parts), samples);
}

}  // namespace

absl::StatusOr<std::shared_ptr<const Dataset>> OpenCifar10(const std::vector<std::string>& paths,
                                                           const std::string& names) {
  return OpenFiles(Cifar10(), paths, names);
}
absl::StatusOr<std::shared_ptr<const Dataset>> OpenCifar100(const std::vector<std::string>& paths,
                                                            const std::string& names) {
  return OpenFiles(Cifar100(), paths, names);
}

}  // namespace snug::core
