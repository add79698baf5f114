// The bytes of a file. They are mapped and not copied, so that a data set larger than memory can be read; a gzipped
// file (told by its content) is unpacked into memory. Errors say where in the file something is wrong.
//
// A mapped file must not be shortened while it is used: the system kills a process that reads bytes that are gone.
#pragma once

#include <absl/status/statusor.h>
#include <absl/strings/string_view.h>
#include <absl/types/span.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace snug::core {

class FileBytes {
 public:
  static absl::StatusOr<std::shared_ptr<const FileBytes>> Open(const std::string& path);
  ~FileBytes();
  FileBytes(const FileBytes&) = delete;
  FileBytes& operator=(const FileBytes&) = delete;

  const std::string& path() const { return path_; }
  absl::Span<const uint8_t> bytes() const { return bytes_; }
  int64_t size() const { return static_cast<int64_t>(bytes_.size()); }
  absl::string_view text() const { return {reinterpret_cast<const char*>(bytes_.data()), bytes_.size()}; }

  // Returns "PATH: byte OFFSET: MESSAGE". The offset counts unpacked bytes.
  absl::Status Error(int64_t offset, absl::string_view message) const;
  // Returns an error that says what is missing or too much unless the file is `expected` bytes long. `why` explains the
  // size: "60000 images of 784 bytes".
  absl::Status CheckSize(int64_t expected, absl::string_view why) const;

 private:
  explicit FileBytes(const std::string& path) : path_(path) {}

  std::string path_;
  void* mapping_ = nullptr;
  size_t mapped_bytes_ = 0;
  std::vector<uint8_t> unpacked_;
  absl::Span<const uint8_t> bytes_;
};

// Turns the bytes of images into numbers in [0, 1].
inline void PixelsToFloats(const uint8_t* pixels, int64_t n, std::byte* floats) {
  auto* out = reinterpret_cast<float*>(floats);
  for (int64_t i = 0; i < n; ++i) out[i] = static_cast<float>(pixels[i]) / 255;
}

}  // namespace snug::core
