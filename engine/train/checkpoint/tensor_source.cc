#include "engine/train/checkpoint/tensor_source.h"

#include <absl/strings/match.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/str_join.h>

#include <algorithm>
#include <utility>

#include "engine/base/status.h"
#include "engine/train/checkpoint/safetensors.h"
#include "engine/train/checkpoint/torch_file.h"

namespace snug::core::checkpoint {
namespace {

template <class File>
absl::StatusOr<std::unique_ptr<TensorSource>> OpenAs(std::unique_ptr<ReadableFile> opened, const std::string& path) {
  SNUG_ASSIGN_OR_RETURN(File file, File::Open(std::move(opened), path));
  return std::make_unique<File>(std::move(file));
}

}  // namespace

std::string TensorEntry::TypeText() const { return absl::StrCat(Name(type), "[", absl::StrJoin(shape, ", "), "]"); }

std::optional<int64_t> TensorBytesOf(ElementType type, const std::vector<int64_t>& shape) {
  if (std::find(shape.begin(), shape.end(), 0) != shape.end()) return 0;
  int64_t bytes = SizeOf(type);
  for (const int64_t dim : shape) {
    if (__builtin_mul_overflow(bytes, dim, &bytes)) return std::nullopt;
  }
  return bytes;
}

absl::StatusOr<std::unique_ptr<TensorSource>> OpenTensorSource(FileSystem& files, const std::string& path) {
  SNUG_ASSIGN_OR_RETURN(std::unique_ptr<ReadableFile> file, files.Open(path));
  std::string head(static_cast<size_t>(std::min<int64_t>(file->size_bytes(), kLegacyMagic.size())), '\0');
  SNUG_RETURN_IF_ERROR(file->Read(0, {reinterpret_cast<std::byte*>(head.data()), head.size()}));
  if (absl::StartsWith(head, kZipMagic)) return OpenAs<TorchFile>(std::move(file), path);
  if (head == kLegacyMagic) {
    return absl::InvalidArgumentError(absl::StrCat(
        path, ": byte 0: is in the format of torch.save before PyTorch 1.6, which Snug does not read; in PyTorch, ",
        "torch.save(torch.load(FILE, map_location=\"cpu\"), FILE) writes it anew"));
  }
  return OpenAs<SafetensorsFile>(std::move(file), path);
}

}  // namespace snug::core::checkpoint
