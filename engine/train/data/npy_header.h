// Reads the header of a .npy file: format versions 1 to 3, with little-endian numbers in C order. (numpy.lib.format
// describes the format.)
#pragma once

#include <absl/status/statusor.h>

#include <cstdint>

#include "engine/base/shape.h"
#include "engine/train/data/file_bytes.h"

namespace snug::core {

struct NpyHeader {
  char kind = 'f';         // 'f' float, 'i' signed, 'u' unsigned, 'b' bool
  int item_bytes = 4;      // 1, 2, 4 or 8
  Shape shape;             // its first axis counts samples
  int64_t data_begin = 0;  // the byte where the numbers begin

  std::string type_name() const { return kind + std::to_string(item_bytes); }  // "f4"
};

// Also checks that the file is as long as the header says.
absl::StatusOr<NpyHeader> ReadNpyHeader(const FileBytes& file);

}  // namespace snug::core
