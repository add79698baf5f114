// A file of TFRecords: each is its length, a checksum of the length, the bytes, and a checksum of the bytes.
//
//   8 bytes    length, little-endian
//   4 bytes    masked CRC-32C of the length
//   N bytes    the record
//   4 bytes    masked CRC-32C of the record
#pragma once

#include <absl/status/statusor.h>
#include <absl/strings/string_view.h>

#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <utility>

namespace snug::core::tensorboard {

// CRC-32C (Castagnoli), as of RFC 3720.
uint32_t Crc32c(absl::string_view bytes);
// A checksum of bytes that contain checksums is weak, so TFRecord stores this in its place.
uint32_t MaskedCrc32c(absl::string_view bytes);

std::string FramedRecord(absl::string_view record);

class RecordFile {
 public:
  // Fails where a file of that name is there already.
  static absl::StatusOr<std::unique_ptr<RecordFile>> Create(const std::string& path);
  ~RecordFile();
  RecordFile(const RecordFile&) = delete;
  RecordFile& operator=(const RecordFile&) = delete;

  // The record is the system's when this returns, so it outlasts the program.
  absl::Status Write(absl::string_view record);

 private:
  RecordFile(std::string path, std::FILE* file) : path_(std::move(path)), file_(file) {}

  const std::string path_;
  std::FILE* const file_;
};

}  // namespace snug::core::tensorboard
