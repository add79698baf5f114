#include "engine/train/data/images/decode_all.h"

#include <absl/strings/str_cat.h>

#include <algorithm>
#include <utility>

#include "engine/base/machine.h"
#include "engine/base/parallel.h"
#include "engine/base/status.h"

namespace snug::core {

// A few images for each processor at a time, so that only their pixels are in memory.
absl::Status DecodeAll(const std::vector<ImageList::Entry>& entries,
                       const std::function<absl::StatusOr<Pixels>(const std::string& path)>& decode,
                       const ImageProgress& progress,
                       const std::function<absl::Status(size_t index, absl::StatusOr<Pixels> pixels)>& take) {
  constexpr size_t kForEachThread = 16;
  const int threads = AvailableProcessors();
  const size_t together = kForEachThread * static_cast<size_t>(threads);
  const size_t all = entries.size();
  const auto go_on = [&](size_t done) {
    if (!progress || progress(static_cast<int64_t>(done), static_cast<int64_t>(all))) return absl::OkStatus();
    return absl::AbortedError(
        absl::StrCat("images: stopped when ", done, " of ", all, " were decoded, of which nothing is kept"));
  };
  for (size_t first = 0; first < all; first += together) {
    SNUG_RETURN_IF_ERROR(go_on(first));
    const size_t count = std::min(together, all - first);
    std::vector<absl::StatusOr<Pixels>> decoded(count);
    ParallelFor(threads, static_cast<int64_t>(count), /*chunk=*/1, [&](int64_t begin, int64_t end) {
      for (int64_t k = begin; k < end; ++k) {
        decoded[static_cast<size_t>(k)] = decode(entries[first + static_cast<size_t>(k)].path);
      }
    });
    for (size_t k = 0; k < count; ++k) SNUG_RETURN_IF_ERROR(take(first + k, std::move(decoded[k])));
  }
  return go_on(all);
}

absl::Status NoneIsWhole(size_t broken, absl::string_view first) {
  return absl::InvalidArgumentError(
      absl::StrCat("images: expected some that can be read, found none; the first of ", broken, ": ", first));
}

absl::StatusOr<std::vector<std::string>> LeaveOut(const std::vector<std::string>& wrong, ImageList* list) {
  std::vector<ImageList::Entry> whole;
  std::vector<std::string> dropped;
  for (size_t i = 0; i < wrong.size(); ++i) {
    if (wrong[i].empty()) {
      whole.push_back(std::move(list->entries[i]));
    } else {
      dropped.push_back(wrong[i]);
    }
  }
  list->entries = std::move(whole);
  if (list->entries.empty() && !dropped.empty()) return NoneIsWhole(dropped.size(), dropped.front());
  return dropped;
}

absl::StatusOr<std::vector<std::string>> DropBroken(int64_t channels, const ImageProgress& progress, ImageList* list) {
  std::vector<std::string> wrong(list->entries.size());
  const auto decode = [channels](const std::string& path) -> absl::StatusOr<Pixels> {
    SNUG_ASSIGN_OR_RETURN(const ImageFile file, ImageFile::Open(path));
    SNUG_RETURN_IF_ERROR(file.Decode(channels).status());
    return Pixels();  // nobody reads them, and those of many large pictures would not fit into memory
  };
  SNUG_RETURN_IF_ERROR(DecodeAll(list->entries, decode, progress, [&](size_t i, const absl::StatusOr<Pixels>& pixels) {
    if (!pixels.ok()) wrong[i] = std::string(pixels.status().message());
    return absl::OkStatus();
  }));
  return LeaveOut(wrong, list);
}

}  // namespace snug::core
