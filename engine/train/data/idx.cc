#include <absl/strings/str_cat.h>
#include <absl/strings/str_join.h>

#include "engine/base/status.h"
#include "engine/train/data/file_bytes.h"
#include "engine/train/data/sources.h"

namespace snug::core {
namespace {

// Each is two zeros, 8 (for unsigned bytes), and the number of dimensions that follow.
constexpr uint32_t kImagesMagic = 0x00000803, kLabelsMagic = 0x00000801;

uint32_t BigEndian(const uint8_t* bytes) {
  return uint32_t{bytes[0]} << 24 | uint32_t{bytes[1]} << 16 | uint32_t{bytes[2]} << 8 | bytes[3];
}

absl::string_view Describe(uint32_t magic) {
  switch (magic) {
    case kImagesMagic:
      return " (images)";
    case kLabelsMagic:
      return " (labels: are the two files swapped?)";
    default:
      return (magic & 0xffff0000) == 0 ? " (IDX of another element type or rank)" : " (no IDX file)";
  }
}

struct IdxFile {
  std::shared_ptr<const FileBytes> file;
  std::vector<int64_t> dims;
  const uint8_t* data = nullptr;
};

absl::StatusOr<IdxFile> OpenFile(const std::string& path, uint32_t magic) {
  IdxFile idx;
  SNUG_ASSIGN_OR_RETURN(idx.file, FileBytes::Open(path));
  const FileBytes& file = *idx.file;
  const int64_t rank = magic & 0xff;
  const int64_t header = 4 + 4 * rank;
  if (file.size() < header) {
    return file.Error(file.size(), absl::StrCat("the file ends here, expected an IDX header of ", header, " bytes"));
  }
  const uint32_t found = BigEndian(file.bytes().data());
  if (found != magic) {
    return file.Error(0, absl::StrCat("expected the magic number 0x", absl::Hex(magic, absl::kZeroPad8), ", found 0x",
                                      absl::Hex(found, absl::kZeroPad8), Describe(found)));
  }
  for (int64_t i = 0; i < rank; ++i) idx.dims.push_back(BigEndian(file.bytes().data() + 4 + 4 * i));
  const absl::StatusOr<Shape> shape = MakeShape(idx.dims);
  if (!shape.ok()) return file.Error(4, shape.status().message());
  SNUG_RETURN_IF_ERROR(file.CheckSize(header + shape->num_elements(),
                                      absl::StrCat("a header and ", absl::StrJoin(idx.dims, " x "), " bytes")));
  idx.data = file.bytes().data() + header;
  return idx;
}

class IdxDataset final : public Dataset {
 public:
  IdxDataset(IdxFile images, IdxFile labels, int64_t classes)
      : Dataset({{.name = "image", .type = {.shape = {1, images.dims[1], images.dims[2]}}},
                 {.name = "label", .type = {.dtype = DType::kInt32}, .max_value = classes, .padding = kIgnoredLabel}},
                images.dims[0]),
        images_(std::move(images)),
        labels_(std::move(labels)) {}

  absl::Status Read(int64_t sample, absl::Span<std::byte* const> fields) const override {
    const int64_t pixels = images_.dims[1] * images_.dims[2];
    PixelsToFloats(images_.data + sample * pixels, pixels, fields[0]);
    *reinterpret_cast<int32_t*>(fields[1]) = labels_.data[sample];
    return absl::OkStatus();
  }

 private:
  IdxFile images_, labels_;
};

}  // namespace

absl::StatusOr<std::shared_ptr<const Dataset>> OpenIdx(const std::string& images_path, const std::string& labels_path,
                                                       int64_t classes) {
  SNUG_ASSIGN_OR_RETURN(IdxFile images, OpenFile(images_path, kImagesMagic));
  SNUG_ASSIGN_OR_RETURN(IdxFile labels, OpenFile(labels_path, kLabelsMagic));
  if (images.dims[0] != labels.dims[0]) {
    return labels.file->Error(4, absl::StrCat("expected as many labels as ", images_path, " has images, ",
                                              images.dims[0], ", found ", labels.dims[0]));
  }
  for (int64_t i = 0; i < labels.dims[0]; ++i) {
    if (labels.data[i] >= classes) {
      return labels.file->Error(labels.data + i - labels.file->bytes().data(),
                                absl::StrCat("label of sample ", i, ": expected 0 to ", classes - 1, ", found ",
                                             static_cast<int>(labels.data[i])));
    }
  }
  return std::make_shared<const IdxDataset>(std::move(images), std::move(labels), classes);
}

}  // namespace snug::core
