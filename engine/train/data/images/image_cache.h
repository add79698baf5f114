// Images decoded once, for all later epochs and trainings: one file, mapped, with a header that tells which files it
// was made from.
#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "engine/train/data/file_bytes.h"
#include "engine/train/data/images/codec.h"
#include "engine/train/data/images/image_list.h"

namespace snug::core {

class ImageCache {
 public:
  // Opens the cache at `path`; makes it first where there is none for these files (by name, size and time of change)
  // with these channels and this shorter side. Images whose shorter side is at most `side` keep their size. A cache
  // that is being made has another name until it is whole.
  static absl::StatusOr<std::shared_ptr<const ImageCache>> Open(const std::string& path, const ImageList& list,
                                                                int64_t channels, int64_t side);

  PixelView image(int64_t index) const;

 private:
  explicit ImageCache(std::shared_ptr<const FileBytes> file) : file_(std::move(file)) {}

  std::shared_ptr<const FileBytes> file_;
};

}  // namespace snug::core
