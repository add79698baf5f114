// libFuzzer: whatever the bytes, they are a safetensors file whose tensors can all be read, or an error that says why
// not; and a header that was read is written and read again as the same.
//
//   build/fuzz/tests/fuzz/safetensors_fuzzer -dict=tests/fuzz/safetensors.dict NEW_CORPUS tests/data
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "engine/base/status.h"
#include "engine/train/checkpoint/safetensors.h"
#include "tests/fuzz/bytes_file.h"

namespace {

using snug::core::checkpoint::Header;
using snug::core::checkpoint::TensorEntry;

bool Same(const Header& a, const Header& b) {
  if (a.metadata != b.metadata || a.tensors.size() != b.tensors.size()) return false;
  for (size_t i = 0; i < a.tensors.size(); ++i) {
    const TensorEntry& x = a.tensors[i];
    const TensorEntry& y = b.tensors[i];
    if (x.name != y.name || x.type != y.type || x.shape != y.shape || x.begin != y.begin || x.end != y.end)
      return false;
  }
  return true;
}

void CheckThereAndBack(const Header& header, int64_t data_bytes) {
  const std::string written = snug::core::checkpoint::FormatHeader(header);
  const auto again = snug::core::checkpoint::ParseHeader(
      absl::string_view(written).substr(snug::core::checkpoint::kLengthBytes), data_bytes);
  SNUG_CHECK_OK(again.status());
  SNUG_CHECK(Same(header, *again));
}

void ReadFile(absl::Span<const std::byte> bytes) {
  const auto file = snug::core::checkpoint::SafetensorsFile::Open(
      std::make_unique<snug::core::checkpoint::BytesFile>(bytes), "fuzz.safetensors");
  if (!file.ok()) {
    SNUG_CHECK(!file.status().message().empty());
    return;
  }
  int64_t total = 0;
  for (const TensorEntry& tensor : file->header().tensors) {
    std::vector<std::byte> content(static_cast<size_t>(tensor.size_bytes()));
    SNUG_CHECK_OK(file->Read(tensor, absl::MakeSpan(content)));
    SNUG_CHECK(file->Find(tensor.name) == &tensor);
    total += tensor.size_bytes();
  }
  (void)file->VerifyDigest(/*required=*/true);
  CheckThereAndBack(file->header(), total);
}

}  // namespace

// The whole as a file; and past the length, which a mutation rarely hits, as a header alone.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  ReadFile({reinterpret_cast<const std::byte*>(data), size});
  if (size == 0) return 0;
  const auto header = snug::core::checkpoint::ParseHeader({reinterpret_cast<const char*>(data + 1), size - 1}, data[0]);
  if (header.ok()) CheckThereAndBack(*header, data[0]);
  return 0;
}
