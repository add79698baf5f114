// libFuzzer: whatever the bytes, they are a file of torch.save whose tensors can all be read, or an error that says why
// not. Nothing that a pickle asks for is run.
//
//   build/fuzz/tests/fuzz/torch_fuzzer -dict=tests/fuzz/torch.dict NEW_CORPUS tests/data/torch
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "engine/base/status.h"
#include "engine/train/checkpoint/pickle.h"
#include "engine/train/checkpoint/torch_file.h"
#include "tests/fuzz/bytes_file.h"

namespace {

using snug::core::checkpoint::TensorEntry;

constexpr int64_t kMaxTensorBytes = 1 << 20;  // strides of 0 make much of little

}  // namespace

// The whole as a file; and as a pickle alone, which the checks of the archive would hide from most mutations.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const absl::Span<const std::byte> bytes(reinterpret_cast<const std::byte*>(data), size);
  (void)snug::core::checkpoint::ReadPickle({reinterpret_cast<const char*>(data), size});
  const auto file =
      snug::core::checkpoint::TorchFile::Open(std::make_unique<snug::core::checkpoint::BytesFile>(bytes), "fuzz.pth");
  if (!file.ok()) {
    SNUG_CHECK(!file.status().message().empty());
    return 0;
  }
  for (const TensorEntry& tensor : file->tensors()) {
    SNUG_CHECK(file->Find(tensor.name) == &tensor);
    if (tensor.size_bytes() > kMaxTensorBytes) continue;
    std::vector<std::byte> content(static_cast<size_t>(tensor.size_bytes()));
    SNUG_CHECK_OK(file->ReadWhole(tensor, absl::MakeSpan(content)));
  }
  (void)file->VerifyChecksums();
  return 0;
}
