// The directory of a zip archive whose members are stored as they are, which is how torch.save writes. Zip64 is read;
// what is compressed, encrypted or spread over several files is refused.
#pragma once

#include <absl/status/statusor.h>
#include <absl/types/span.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "engine/train/checkpoint/file_system.h"

namespace snug::core::checkpoint {

struct ZipMember {
  std::string name;
  int64_t begin = 0, end = 0;  // its bytes, from the start of the file
  uint32_t crc32 = 0;          // of its bytes, by the directory
};

// Returns the members in the sequence of the file. All lie within it and no two overlap. Errors say at which byte.
absl::StatusOr<std::vector<ZipMember>> ReadZipDirectory(const ReadableFile& file);

// The checksum of zip archives. `crc32` is that of what came before, 0 at first.
uint32_t Crc32(absl::Span<const std::byte> bytes, uint32_t crc32 = 0);

}  // namespace snug::core::checkpoint
