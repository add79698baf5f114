// One checksum of a checkpoint's tensors and metadata, which is kept in its metadata: a file whose checksum is right is
// complete and undamaged. It covers the content by name, wherever that lies in the file, so another program may write
// the same content in another layout.
#pragma once

#include <absl/status/statusor.h>
#include <absl/strings/string_view.h>

#include <string>
#include <vector>

#include "engine/train/checkpoint/tensor_source.h"

namespace snug::core::checkpoint {

inline constexpr absl::string_view kDigestKey = "snug.xxh64";  // the key in the metadata; the value has 16 hexadecimal
                                                               // digits

std::string DigestOf(const std::vector<TensorBytes>& tensors, const Metadata& metadata);
// The same of tensors whose bytes are made a part at a time.
absl::StatusOr<std::string> DigestOf(const std::vector<TensorEntry>& tensors, const MakeBytes& make,
                                     const Metadata& metadata);

}  // namespace snug::core::checkpoint
