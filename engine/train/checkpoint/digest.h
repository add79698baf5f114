// What a checkpoint's tensors and metadata hold, as one checksum that is kept in its metadata: a file whose checksum is
// right is complete and undamaged. It is of the content, by name, wherever it lies in the file: another program may
// write the same content anew.
#pragma once

#include <absl/status/status.h>

#include <string>
#include <vector>

#include "engine/train/checkpoint/safetensors.h"

namespace snug::checkpoint {

inline constexpr absl::string_view kDigestKey = "snug.xxh64";  // in the metadata, 16 hexadecimal digits

std::string DigestOf(const std::vector<TensorBytes>& tensors, const Metadata& metadata);

// Reads the whole file. DataLoss: its content is not what the checksum was taken of. A file without one passes only
// where none is `required`.
absl::Status VerifyDigest(const SafetensorsFile& file, bool required);

}  // namespace snug::checkpoint
