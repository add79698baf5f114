#include <absl/strings/str_cat.h>

#include "engine/base/status.h"
#include "engine/train/data/file_bytes.h"
#include "engine/train/data/sources.h"

namespace snug::core {
namespace {

class TextDataset final : public Dataset {
 public:
  TextDataset(std::shared_ptr<const FileBytes> file, int64_t begin, int64_t windows_of_row, int64_t rows,
              int64_t length, int64_t stride)
      : Dataset({{.name = "tokens", .type = {.dtype = DType::kInt32, .shape = {length}}, .max_value = 256},
                 {.name = "label",
                  .type = {.dtype = DType::kInt32, .shape = {length}},
                  .max_value = 256,
                  .padding = kIgnoredLabel}},
                windows_of_row * rows),
        file_(std::move(file)),
        begin_(begin),
        windows_of_row_(windows_of_row),
        rows_(rows),
        length_(length),
        stride_(stride) {}

  absl::Status Read(int64_t sample, absl::Span<std::byte* const> fields) const override {
    const int64_t number = sample % rows_ * windows_of_row_ + sample / rows_;
    const uint8_t* window = file_->bytes().data() + begin_ + number * stride_;
    auto* tokens = reinterpret_cast<int32_t*>(fields[0]);
    auto* labels = reinterpret_cast<int32_t*>(fields[1]);
    for (int64_t i = 0; i < length_; ++i) {
      tokens[i] = window[i];
      labels[i] = window[i + 1];
    }
    return absl::OkStatus();
  }

 private:
  std::shared_ptr<const FileBytes> file_;
  int64_t begin_, windows_of_row_, rows_, length_, stride_;
};

}  // namespace

absl::StatusOr<std::shared_ptr<const Dataset>> OpenText(const std::string& path, const TextOptions& options) {
  const int64_t stride = options.stride == 0 ? options.length : options.stride;
  if (options.length < 1 || stride < 1) {
    return absl::InvalidArgumentError(absl::StrCat("text windows: expected a length and a stride of at least 1, found ",
                                                   options.length, " and ", stride));
  }
  if (options.rows < 1) {
    return absl::InvalidArgumentError(absl::StrCat("text rows: expected at least 1, found ", options.rows));
  }
  if (!(options.from >= 0 && options.from < options.to && options.to <= 1)) {
    return absl::InvalidArgumentError(
        absl::StrCat("part of a text: expected 0 <= from < to <= 1, found ", options.from, " to ", options.to));
  }
  SNUG_ASSIGN_OR_RETURN(std::shared_ptr<const FileBytes> file, FileBytes::Open(path));
  const auto begin = static_cast<int64_t>(options.from * static_cast<double>(file->size()));
  const auto end = static_cast<int64_t>(options.to * static_cast<double>(file->size()));
  const int64_t room = end - begin - (options.length + 1);  // the last label of the last window needs a byte too
  if (room < 0) {
    return file->Error(end, absl::StrCat("the text ends here, expected at least ", options.length + 1,
                                         " bytes from byte ", begin, " on (a window of ", options.length,
                                         " and the byte after it): use a longer text or a shorter window"));
  }
  const int64_t windows_of_row = (room / stride + 1) / options.rows;
  if (windows_of_row < 1) {
    return file->Error(end, absl::StrCat("the text ends here after ", room / stride + 1, " windows of ", options.length,
                                         " bytes, expected at least one for each of ", options.rows, " rows"));
  }
  return std::make_shared<const TextDataset>(std::move(file), begin, windows_of_row, options.rows, options.length,
                                             stride);
}

}  // namespace snug::core
