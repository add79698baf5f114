// Reads and writes safetensors files, the format of the Python library of that name.
//
//   SNUG_ASSIGN_OR_RETURN(const SafetensorsFile file, SafetensorsFile::Open(files, path));
//   for (const TensorEntry& tensor : file.header().tensors) ... file.Read(tensor, bytes) ...
#pragma once

#include <absl/status/statusor.h>
#include <absl/strings/string_view.h>
#include <absl/types/span.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "engine/train/checkpoint/element_type.h"
#include "engine/train/checkpoint/file_system.h"
#include "engine/train/checkpoint/tensor_source.h"

namespace snug::core::checkpoint {

// The header of a safetensors file says what the file holds and where. https://huggingface.co/docs/safetensors
//
//   8 bytes    length N of the header, little-endian
//   N bytes    JSON: {"__metadata__": {"key": "text"}, "name": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0,
//   24]}} the rest   the tensors' elements, row-major, one tensor after the other without holes; offsets count from
//   here
struct Header {
  Metadata metadata;
  std::vector<TensorEntry> tensors;  // in the sequence of the data
};

inline constexpr int64_t kLengthBytes = 8;
inline constexpr int64_t kMaxHeaderBytes = 100'000'000;  // the limit of the reference implementation
inline constexpr absl::string_view kMetadataKey = "__metadata__";

// `text` is the N bytes of JSON, and `data_bytes` says how many bytes follow them in the file. Whatever the text holds,
// the tensors of the result cover the data exactly.
absl::StatusOr<Header> ParseHeader(absl::string_view text, int64_t data_bytes);

// Returns the file's beginning up to the data, padded with blanks to a multiple of 8 bytes.
std::string FormatHeader(const Header& header);

class SafetensorsFile final : public TensorSource {
 public:
  // Reads and checks the header. Errors begin with the path.
  static absl::StatusOr<SafetensorsFile> Open(FileSystem& files, const std::string& path);
  static absl::StatusOr<SafetensorsFile> Open(std::unique_ptr<ReadableFile> file, const std::string& path);

  const std::string& path() const override { return path_; }
  const Header& header() const { return header_; }
  const std::vector<TensorEntry>& tensors() const override { return header_.tensors; }
  const TensorEntry* Find(const std::string& name) const override;
  const Metadata& metadata() const override { return header_.metadata; }
  const std::vector<std::string>& notes() const override { return notes_; }
  absl::Status ReadWhole(const TensorEntry& tensor, absl::Span<std::byte> bytes) const override {
    return Read(tensor, bytes);
  }
  absl::Status VerifyChecksums() const override { return VerifyDigest(/*required=*/false); }
  // Reads the whole file. Fails with DataLoss when its content does not match its checksum (digest.h). A file without a
  // checksum passes unless one is `required`.
  absl::Status VerifyDigest(bool required) const;
  // Reads the bytes of a tensor of the header, from `offset` on.
  absl::Status Read(const TensorEntry& tensor, absl::Span<std::byte> bytes, int64_t offset = 0) const;

 private:
  SafetensorsFile(std::string path, std::unique_ptr<ReadableFile> file)
      : path_(std::move(path)), file_(std::move(file)) {}
  absl::Status ReadHeader();

  std::string path_;
  std::unique_ptr<ReadableFile> file_;
  Header header_;
  std::vector<std::string> notes_;                   // always empty: everything is taken as it is
  std::unordered_map<std::string, size_t> by_name_;  // indexes of header().tensors
  int64_t data_offset_ = 0;                          // where the data begin in the file
};

// Lays tensors out like the reference implementation: the larger elements first, so that all are aligned, then by name.
// Fails with InvalidArgument if names are not UTF-8, taken twice or reserved, or if bytes do not fit the shape.
absl::Status WriteSafetensors(std::vector<TensorBytes> tensors, const Metadata& metadata, WritableFile& file);

// Writes what was written of such tensors if their bytes lay in memory, of which only a part at a time does. Their
// places in a file do not matter.
absl::Status WriteSafetensors(const std::vector<TensorEntry>& tensors, const MakeBytes& make, const Metadata& metadata,
                              WritableFile& file);

}  // namespace snug::core::checkpoint
