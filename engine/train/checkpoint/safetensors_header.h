// The header of a safetensors file says what the file holds and where. https://huggingface.co/docs/safetensors
//
//   8 bytes    length N of the header, little-endian
//   N bytes    JSON: {"__metadata__": {"key": "text"}, "name": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0,
//   24]}} the rest   the tensors' elements, row-major, one tensor after the other without holes; offsets count from
//   here
#pragma once

#include <absl/status/statusor.h>
#include <absl/strings/string_view.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "engine/train/checkpoint/element_type.h"

namespace snug::core::checkpoint {

using Metadata = std::map<std::string, std::string>;

struct TensorEntry {
  std::string name;
  ElementType type = ElementType::kF32;
  std::vector<int64_t> shape;
  int64_t begin = 0, end = 0;  // bytes, from the start of the data

  int64_t size_bytes() const { return end - begin; }
  std::string TypeText() const;  // "F32[2, 3]"
};

struct Header {
  Metadata metadata;
  std::vector<TensorEntry> tensors;  // in the sequence of the data
};

inline constexpr int64_t kLengthBytes = 8;
inline constexpr int64_t kMaxHeaderBytes = 100'000'000;  // the limit of the reference implementation
inline constexpr absl::string_view kMetadataKey = "__metadata__";

// Returns the bytes of a tensor, or nothing if they are 2^63 or more.
std::optional<int64_t> TensorBytesOf(ElementType type, const std::vector<int64_t>& shape);

// `text` is the N bytes of JSON, and `data_bytes` says how many bytes follow them in the file. Whatever the text holds,
// the tensors of the result cover the data exactly.
absl::StatusOr<Header> ParseHeader(absl::string_view text, int64_t data_bytes);

// Returns the file's beginning up to the data, padded with blanks to a multiple of 8 bytes.
std::string FormatHeader(const Header& header);

}  // namespace snug::core::checkpoint
