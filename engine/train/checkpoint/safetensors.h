// Reads and writes safetensors files, the format of the Python library of that name.
//
//   SNUG_ASSIGN_OR_RETURN(const SafetensorsFile file, SafetensorsFile::Open(files, path));
//   for (const TensorEntry& tensor : file.header().tensors) ... file.Read(tensor, bytes) ...
#pragma once

#include <absl/status/statusor.h>
#include <absl/types/span.h>

#include <cstddef>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "engine/train/checkpoint/file_system.h"
#include "engine/train/checkpoint/safetensors_header.h"

namespace snug::core::checkpoint {

class SafetensorsFile {
 public:
  // Reads and checks the header. Errors begin with the path.
  static absl::StatusOr<SafetensorsFile> Open(FileSystem& files, const std::string& path);
  static absl::StatusOr<SafetensorsFile> Open(std::unique_ptr<ReadableFile> file, const std::string& path);

  const std::string& path() const { return path_; }
  const Header& header() const { return header_; }
  const TensorEntry* Find(const std::string& name) const;  // null when there is none
  // Reads the bytes of a tensor of the header, from `offset` on.
  absl::Status Read(const TensorEntry& tensor, absl::Span<std::byte> bytes, int64_t offset = 0) const;

 private:
  SafetensorsFile(std::string path, std::unique_ptr<ReadableFile> file)
      : path_(std::move(path)), file_(std::move(file)) {}
  absl::Status ReadHeader();

  std::string path_;
  std::unique_ptr<ReadableFile> file_;
  Header header_;
  std::unordered_map<std::string, size_t> by_name_;  // indexes of header().tensors
  int64_t data_offset_ = 0;                          // where the data begin in the file
};

// A tensor to be written: a name, a type, and its bytes somewhere in memory.
struct TensorBytes {
  std::string name;
  ElementType type = ElementType::kF32;
  std::vector<int64_t> shape;
  absl::Span<const std::byte> bytes;
};

// Lays tensors out like the reference implementation: the larger elements first, so that all are aligned, then by name.
// Fails with InvalidArgument if names are not UTF-8, taken twice or reserved, or if bytes do not fit the shape.
absl::Status WriteSafetensors(std::vector<TensorBytes> tensors, const Metadata& metadata, WritableFile& file);

}  // namespace snug::core::checkpoint
