#include "engine/train/checkpoint/digest.h"

#include <absl/strings/str_cat.h>

#include <algorithm>
#include <map>

#include "engine/base/status.h"
#include "engine/base/xxh64.h"

namespace snug::core::checkpoint {
namespace {

// Hashes texts and lists together with their lengths, so that no two contents give the same bytes.
class ContentHash {
 public:
  void Add(absl::string_view text) {
    Add(static_cast<int64_t>(text.size()));
    hash_.Add({reinterpret_cast<const std::byte*>(text.data()), text.size()});
  }
  void Add(int64_t number) { hash_.Add({reinterpret_cast<const std::byte*>(&number), sizeof(number)}); }
  void AddType(absl::string_view name, ElementType type, const std::vector<int64_t>& shape) {
    Add(name);
    Add(Name(type));
    Add(static_cast<int64_t>(shape.size()));
    for (const int64_t dim : shape) Add(dim);
  }
  void AddBytes(absl::Span<const std::byte> bytes) { hash_.Add(bytes); }

  std::string Finish(const Metadata& metadata) {
    for (const auto& [key, value] : metadata) {
      if (key == kDigestKey) continue;
      Add(key);
      Add(value);
    }
    return absl::StrCat(absl::Hex(hash_.Digest(), absl::kZeroPad16));
  }

 private:
  Xxh64 hash_;
};

// Sorts tensors by name, because the digest must not depend on where they lie.
template <class Tensor>
std::map<absl::string_view, const Tensor*> ByName(const std::vector<Tensor>& tensors) {
  std::map<absl::string_view, const Tensor*> by_name;
  for (const Tensor& tensor : tensors) by_name[tensor.name] = &tensor;
  return by_name;
}

}  // namespace

std::string DigestOf(const std::vector<TensorBytes>& tensors, const Metadata& metadata) {
  ContentHash hash;
  for (const auto& [name, tensor] : ByName(tensors)) {
    hash.AddType(name, tensor->type, tensor->shape);
    hash.AddBytes(tensor->bytes);
  }
  return hash.Finish(metadata);
}

absl::StatusOr<std::string> DigestOf(const std::vector<TensorEntry>& tensors, const MakeBytes& make,
                                     const Metadata& metadata) {
  ContentHash hash;
  std::vector<std::byte> chunk;
  for (const auto& [name, tensor] : ByName(tensors)) {
    hash.AddType(name, tensor->type, tensor->shape);
    for (int64_t done = 0; done < tensor->size_bytes(); done += static_cast<int64_t>(chunk.size())) {
      chunk.resize(static_cast<size_t>(std::min(kChunkBytes, tensor->size_bytes() - done)));
      SNUG_RETURN_IF_ERROR(make(*tensor, done, absl::MakeSpan(chunk)));
      hash.AddBytes(chunk);
    }
  }
  return hash.Finish(metadata);
}

}  // namespace snug::core::checkpoint
