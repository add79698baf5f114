// Reads the files of PyTorch's torch.save, since version 1.6 zip archives: a state dict, or a dict with one inside.
//
//   NAME/data.pkl   a pickle of the dict, which names a storage for each tensor (pickle.h)
//   NAME/data/KEY   the elements of a storage; several tensors may see parts of it, with strides
//
// The pickle is read as data, so nothing that a file says is ever run.
#pragma once

#include <absl/status/statusor.h>
#include <absl/strings/string_view.h>
#include <absl/types/span.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "engine/train/checkpoint/file_system.h"
#include "engine/train/checkpoint/pickle.h"
#include "engine/train/checkpoint/tensor_source.h"
#include "engine/train/checkpoint/zip_directory.h"

namespace snug::core::checkpoint {

// What files begin with; the second is the older format, a row of pickles.
inline constexpr absl::string_view kZipMagic = "PK\x03\x04";
inline constexpr absl::string_view kLegacyMagic("\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19", 14);

// The state dict may be the whole, or under "state_dict", "model_state_dict" or "model" in the whole. What all names
// begin with because the module was in a wrapper ("module." of DataParallel, "_orig_mod." of torch.compile) is removed
// from them. notes() say which of that was done, and what is not a tensor and was left out.
class TorchFile final : public TensorSource {
 public:
  // Reads and checks everything but the elements. Errors begin with the path, and say at which byte of the file.
  static absl::StatusOr<TorchFile> Open(std::unique_ptr<ReadableFile> file, const std::string& path);

  const std::string& path() const override { return path_; }
  const std::vector<TensorEntry>& tensors() const override { return tensors_; }
  const TensorEntry* Find(const std::string& name) const override;
  const Metadata& metadata() const override { return metadata_; }
  const std::vector<std::string>& notes() const override { return notes_; }
  absl::Status ReadWhole(const TensorEntry& tensor, absl::Span<std::byte> bytes) const override;
  absl::Status VerifyChecksums() const override;

 private:
  using Members = std::unordered_map<std::string, const ZipMember*>;
  // Where the elements of a tensor lie: `begin` is the byte of the first, the strides are in elements.
  struct Layout {
    int64_t begin = 0;
    std::vector<int64_t> strides;
  };

  TorchFile(std::string path, std::unique_ptr<ReadableFile> file) : path_(std::move(path)), file_(std::move(file)) {}
  absl::Status Read();
  absl::StatusOr<std::string> Content(const ZipMember& member, int64_t max_bytes) const;
  absl::Status AddTensors(const Pickle& pickle, const PickleObject& dict, const std::string& folder,
                          const Members& members);
  absl::Status AddTensor(std::string name, const Pickle& pickle, const PickleTensor& tensor, const ZipMember& member);
  void RemoveWrappers();

  std::string path_;
  std::unique_ptr<ReadableFile> file_;
  Metadata metadata_;  // always empty: torch.save has none
  std::vector<ZipMember> members_;
  std::vector<TensorEntry> tensors_;
  std::vector<Layout> layouts_;  // of tensors_
  std::unordered_map<std::string, size_t> by_name_;
  std::vector<std::string> notes_;
};

}  // namespace snug::core::checkpoint
