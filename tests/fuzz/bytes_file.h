// The bytes of a fuzzer, as a file.
#pragma once

#include <absl/types/span.h>

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "engine/base/status.h"
#include "engine/train/checkpoint/file_system.h"

namespace snug::core::checkpoint {

class BytesFile final : public ReadableFile {
 public:
  explicit BytesFile(absl::Span<const std::byte> bytes) : bytes_(bytes) {}
  int64_t size_bytes() const override { return static_cast<int64_t>(bytes_.size()); }
  absl::Status Read(int64_t offset, absl::Span<std::byte> bytes) const override {
    SNUG_CHECK(offset >= 0 && static_cast<size_t>(offset) + bytes.size() <= bytes_.size());
    if (!bytes.empty()) std::memcpy(bytes.data(), bytes_.data() + offset, bytes.size());
    return absl::OkStatus();
  }

 private:
  absl::Span<const std::byte> bytes_;
};

}  // namespace snug::core::checkpoint
