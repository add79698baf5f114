// A file of named tensors, whoever wrote it: safetensors (safetensors.h), or torch.save (torch_file.h).
#pragma once

#include <absl/status/statusor.h>
#include <absl/strings/string_view.h>
#include <absl/types/span.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/train/checkpoint/element_type.h"
#include "engine/train/checkpoint/file_system.h"

namespace snug::core::checkpoint {

using Metadata = std::map<std::string, std::string>;

struct TensorEntry {
  std::string name;
  ElementType type = ElementType::kF32;
  std::vector<int64_t> shape;
  // Bytes, from the start of a safetensors file's data. The elements in a file of torch.save need not lie side by side:
  // there `begin` is 0, and `end` says how many bytes they take once they do.
  int64_t begin = 0, end = 0;

  int64_t size_bytes() const { return end - begin; }
  std::string TypeText() const;  // "F32[2, 3]"
};

// Returns the bytes of a tensor, or nothing if they are 2^63 or more.
std::optional<int64_t> TensorBytesOf(ElementType type, const std::vector<int64_t>& shape);

// A tensor to be written: a name, a type, and its bytes somewhere in memory.
struct TensorBytes {
  std::string name;
  ElementType type = ElementType::kF32;
  std::vector<int64_t> shape;
  absl::Span<const std::byte> bytes;
};

// Makes a part of a tensor's bytes, from `offset` on. It must give the same ones each time.
using MakeBytes = std::function<absl::Status(const TensorEntry& tensor, int64_t offset, absl::Span<std::byte> bytes)>;

// How many bytes are made, read or written at a time.
inline constexpr int64_t kChunkBytes = int64_t{1} << 20;

class TensorSource {
 public:
  virtual ~TensorSource() = default;
  virtual const std::string& path() const = 0;
  virtual const std::vector<TensorEntry>& tensors() const = 0;
  virtual const TensorEntry* Find(const std::string& name) const = 0;  // null when there is none
  virtual const Metadata& metadata() const = 0;
  // What was left out of the file, and what names were changed: a line each.
  virtual const std::vector<std::string>& notes() const = 0;
  // Reads all elements of one of tensors(), row-major. `bytes` are as many as it has.
  virtual absl::Status ReadWhole(const TensorEntry& tensor, absl::Span<std::byte> bytes) const = 0;
  // Reads everything that has a checksum. Fails with DataLoss where the content is not what was written.
  virtual absl::Status VerifyChecksums() const = 0;
};

// Tells by its first bytes which kind of file it is. Errors begin with the path.
absl::StatusOr<std::unique_ptr<TensorSource>> OpenTensorSource(FileSystem& files, const std::string& path);

}  // namespace snug::core::checkpoint
