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
#include "engine/train/data/images/decode_all.h"
#include "engine/train/data/images/image_list.h"

namespace snug::core {

struct ImageCacheOptions {
  int64_t channels = 3;
  int64_t side = 0;                  // the shorter one of an image there; smaller images keep their size
  bool skips_broken = false;         // leaves broken files out of the list; or they are errors
  ImageProgress progress = nullptr;  // hears how many images are decoded, where the cache is made
};

class ImageCache {
 public:
  // The shorter side of cached images whose samples are so large: evaluation then cuts out of them what has a sample's
  // own size.
  static int64_t SideFor(int64_t height, int64_t width);

  // Opens the cache at `path`; makes it first where there is none for these files (by name, size and time of change)
  // with these channels and this side. A cache that is being made has another name until it is whole. It remembers
  // which files were broken: what was wrong with those that are left out goes to `dropped`.
  static absl::StatusOr<std::shared_ptr<const ImageCache>> Open(const std::string& path,
                                                                const ImageCacheOptions& options, ImageList* list,
                                                                std::vector<std::string>* dropped);

  // An image of the list, as Open left that.
  PixelView image(int64_t index) const;

 private:
  explicit ImageCache(std::shared_ptr<const FileBytes> file) : file_(std::move(file)) {}
  // What was wrong with each file; empty where nothing was.
  std::vector<std::string> Wrong() const;

  std::shared_ptr<const FileBytes> file_;
  std::vector<int64_t> whole_;  // the number in the file of each image that is not broken
};

}  // namespace snug::core
