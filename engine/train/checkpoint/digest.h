// One checksum of a checkpoint's tensors and metadata, which is kept in its metadata: a file whose checksum is right is
// complete and undamaged. It covers the content by name, wherever that lies in the file, so another program may write
// the same content in another layout.
#pragma once

#include <absl/status/status.h>

#include <string>
#include <vector>

#include "engine/train/checkpoint/safetensors.h"

namespace snug::core::checkpoint {

inline constexpr absl::string_view kDigestKey = "snug.xxh64";  // the key in the metadata; the value has 16 hexadecimal
                                                               // digits

std::string DigestOf(const std::vector<TensorBytes>& tensors, const Metadata& metadata);

// Reads the whole file. Fails with DataLoss when its content does not match the checksum. A file without a checksum
// passes unless one is `required`.
absl::Status VerifyDigest(const SafetensorsFile& file, bool required);

}  // namespace snug::core::checkpoint
