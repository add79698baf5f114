#include "engine/train/data_checksum.h"

#include <absl/strings/str_cat.h>
#include <absl/strings/string_view.h>
#include <absl/types/span.h>

#include <algorithm>
#include <cstddef>
#include <vector>

#include "engine/base/xxh64.h"

namespace snug::core {
namespace {

constexpr int64_t kSpread = 16;           // samples
constexpr int64_t kAllBytes = 4'000'000;  // up to here all are read
constexpr size_t kAlignment = alignof(std::max_align_t);

void Add(absl::string_view text, Xxh64* hash) {
  hash->Add({reinterpret_cast<const std::byte*>(text.data()), text.size()});
}

}  // namespace

std::string ChecksumOf(const Dataset& dataset) {
  Xxh64 hash;
  std::vector<size_t> offsets;
  size_t bytes = 0;
  for (const DataField& field : dataset.fields()) {
    Add(absl::StrCat(field.name, " ", field.type.ToString(), "\n"), &hash);
    offsets.push_back(bytes);
    const auto size = static_cast<size_t>(field.type.size_bytes());
    bytes += (size + kAlignment - 1) / kAlignment * kAlignment;
  }
  const int64_t size = dataset.size();
  // To decode all pictures of a folder would take as long as an epoch's reading.
  const bool decoded = size > 0 && !dataset.NameOf(0).empty();
  const bool all = !decoded && static_cast<int64_t>(bytes) <= kAllBytes / std::max<int64_t>(size, 1);
  const int64_t read = all ? size : std::min(size, kSpread);
  std::vector<std::byte> sample(bytes);
  std::vector<std::byte*> fields;
  for (const size_t offset : offsets) fields.push_back(sample.data() + offset);
  for (int64_t i = 0; i < read; ++i) {
    // The first and the last are among them.
    const int64_t number = read == size ? i : i * (size - 1) / (read - 1);
    std::fill(sample.begin(), sample.end(), std::byte{0});
    if (dataset.Read(number, absl::MakeSpan(fields)).ok()) {
      hash.Add(sample);
    } else {
      Add("cannot be read", &hash);
    }
  }
  return absl::StrCat(absl::Hex(hash.Digest(), absl::kZeroPad16));
}

}  // namespace snug::core
