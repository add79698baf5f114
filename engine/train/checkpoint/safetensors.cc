#include "engine/train/checkpoint/safetensors.h"

#include <absl/strings/escaping.h>
#include <absl/strings/str_cat.h>

#include <algorithm>
#include <cstring>
#include <tuple>
#include <utility>

#include "engine/base/status.h"
#include "proto/loader/utf8.h"

namespace snug::core::checkpoint {
namespace {

absl::StatusOr<Header> LayOut(const std::vector<TensorBytes>& tensors, const Metadata& metadata) {
  for (const auto& [key, value] : metadata) {
    if (!loader::IsUtf8(key) || !loader::IsUtf8(value)) {
      return absl::InvalidArgumentError(absl::StrCat("metadata \"", absl::CHexEscape(key), "\": expected UTF-8"));
    }
  }
  Header header{.metadata = metadata};
  int64_t end = 0;
  for (const TensorBytes& tensor : tensors) {
    if (!loader::IsUtf8(tensor.name)) {
      return absl::InvalidArgumentError(absl::StrCat("tensor \"", absl::CHexEscape(tensor.name), "\": expected UTF-8"));
    }
    const std::string place = absl::StrCat("tensor \"", absl::Utf8SafeCEscape(tensor.name), "\"");
    if (tensor.name == kMetadataKey) {
      return absl::InvalidArgumentError(absl::StrCat(place, ": the name is the format's own"));
    }
    TensorEntry entry{.name = tensor.name, .type = tensor.type, .shape = tensor.shape, .begin = end};
    const std::optional<int64_t> bytes = TensorBytesOf(tensor.type, tensor.shape);
    if (bytes != static_cast<int64_t>(tensor.bytes.size())) {
      return absl::InvalidArgumentError(absl::StrCat(place, " ", entry.TypeText(), ": expected ", bytes.value_or(-1),
                                                     " bytes, found ", tensor.bytes.size()));
    }
    entry.end = end += *bytes;
    header.tensors.push_back(std::move(entry));
  }
  return header;
}

absl::Status CheckNamesDiffer(const std::vector<TensorBytes>& tensors) {
  std::vector<std::string> names;
  for (const TensorBytes& tensor : tensors) names.push_back(tensor.name);
  std::sort(names.begin(), names.end());
  const auto twice = std::adjacent_find(names.begin(), names.end());
  if (twice == names.end()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("tensor \"", *twice, "\": expected once, found twice"));
}

}  // namespace

absl::StatusOr<SafetensorsFile> SafetensorsFile::Open(FileSystem& files, const std::string& path) {
  SNUG_ASSIGN_OR_RETURN(std::unique_ptr<ReadableFile> opened, files.Open(path));
  return Open(std::move(opened), path);
}

absl::StatusOr<SafetensorsFile> SafetensorsFile::Open(std::unique_ptr<ReadableFile> opened, const std::string& path) {
  SafetensorsFile file(path, std::move(opened));
  SNUG_RETURN_IF_ERROR(file.ReadHeader());
  return file;
}

absl::Status SafetensorsFile::ReadHeader() {
  const int64_t size = file_->size_bytes();
  if (size < kLengthBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat(path_, ": expected a safetensors file, at least ", kLengthBytes, " bytes, found ", size));
  }
  uint64_t length = 0;
  SNUG_RETURN_IF_ERROR(file_->Read(0, {reinterpret_cast<std::byte*>(&length), sizeof(length)}));
  if (length > static_cast<uint64_t>(kMaxHeaderBytes)) {
    return absl::InvalidArgumentError(absl::StrCat(
        path_, ": byte 0: expected the length of a safetensors header, at most ", kMaxHeaderBytes, ", found ", length));
  }
  data_offset_ = kLengthBytes + static_cast<int64_t>(length);
  if (data_offset_ > size) {
    return absl::InvalidArgumentError(absl::StrCat(path_, ": expected ", length, " bytes of header, found ",
                                                   size - kLengthBytes, ": the file is cut short"));
  }
  std::string text(length, '\0');
  SNUG_RETURN_IF_ERROR(file_->Read(kLengthBytes, {reinterpret_cast<std::byte*>(text.data()), text.size()}));
  absl::StatusOr<Header> header = ParseHeader(text, size - data_offset_);
  if (!header.ok()) return Annotate(header.status(), path_);
  header_ = *std::move(header);
  for (size_t i = 0; i < header_.tensors.size(); ++i) by_name_[header_.tensors[i].name] = i;
  return absl::OkStatus();
}

const TensorEntry* SafetensorsFile::Find(const std::string& name) const {
  const auto found = by_name_.find(name);
  return found == by_name_.end() ? nullptr : &header_.tensors[found->second];
}

absl::Status SafetensorsFile::Read(const TensorEntry& tensor, absl::Span<std::byte> bytes, int64_t offset) const {
  SNUG_CHECK(offset + static_cast<int64_t>(bytes.size()) <= tensor.size_bytes());
  return file_->Read(data_offset_ + tensor.begin + offset, bytes);
}

absl::Status WriteSafetensors(std::vector<TensorBytes> tensors, const Metadata& metadata, WritableFile& file) {
  std::sort(tensors.begin(), tensors.end(), [](const TensorBytes& a, const TensorBytes& b) {
    return std::tuple(-SizeOf(a.type), absl::string_view(a.name)) <
           std::tuple(-SizeOf(b.type), absl::string_view(b.name));
  });
  SNUG_RETURN_IF_ERROR(CheckNamesDiffer(tensors));
  SNUG_ASSIGN_OR_RETURN(const Header header, LayOut(tensors, metadata));
  const std::string head = FormatHeader(header);
  if (static_cast<int64_t>(head.size()) - kLengthBytes > kMaxHeaderBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("the header takes ", head.size(), " bytes, expected at most ", kMaxHeaderBytes));
  }
  SNUG_RETURN_IF_ERROR(file.Append({reinterpret_cast<const std::byte*>(head.data()), head.size()}));
  for (const TensorBytes& tensor : tensors) SNUG_RETURN_IF_ERROR(file.Append(tensor.bytes));
  return absl::OkStatus();
}

}  // namespace snug::core::checkpoint
