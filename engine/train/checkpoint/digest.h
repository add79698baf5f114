// One checksum of a checkpoint's tensors and metadata, which is kept in its metadata: a file whose checksum is right is
// complete and undamaged. It covers the content by name, wherever that lies in the file, so another program may write
// the same content in another layout.
#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>
#include <absl/types/span.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "engine/train/checkpoint/safetensors.h"

namespace snug::core::checkpoint {

inline constexpr absl::string_view kDigestKey = "snug.xxh64";  // the key in the metadata; the value has 16 hexadecimal
                                                               // digits

std::string DigestOf(const std::vector<TensorBytes>& tensors, const Metadata& metadata);
// The same of tensors whose bytes are made a part at a time.
absl::StatusOr<std::string> DigestOf(const std::vector<TensorEntry>& tensors, const MakeBytes& make,
                                     const Metadata& metadata);

// Reads the whole file. Fails with DataLoss when its content does not match the checksum. A file without a checksum
// passes unless one is `required`.
absl::Status VerifyDigest(const SafetensorsFile& file, bool required);

// XXH64 (Yann Collet): a fast 64-bit checksum with a published definition, so it is the same everywhere.
class Xxh64 {
 public:
  Xxh64() = default;
  void Add(absl::Span<const std::byte> bytes);
  uint64_t Digest() const;  // covers all that was added so far; more may follow

 private:
  static constexpr size_t kStripe = 32;
  static constexpr uint64_t kPrime1 = 0x9E3779B185EBCA87U;
  static constexpr uint64_t kPrime2 = 0xC2B2AE3D27D4EB4FU;

  void AddStripes(absl::Span<const std::byte> bytes);

  std::array<uint64_t, 4> lanes_ = {kPrime1 + kPrime2, kPrime2, 0, 0 - kPrime1};
  std::array<std::byte, kStripe> rest_ = {};
  size_t rest_size_ = 0;
  uint64_t total_ = 0;
};

}  // namespace snug::core::checkpoint
