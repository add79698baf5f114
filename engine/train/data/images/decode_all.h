// Decodes many image files before a training, side by side on all processors, so that whoever waits sees how far it is
// and can end it.
#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>
#include <absl/strings/string_view.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "engine/train/data/images/codec.h"
#include "engine/train/data/images/image_list.h"

namespace snug::core {

// Hears how many of all images are done, again and again and at the end, in the caller's thread. Where it returns
// false, the rest is given up. May be empty.
using ImageProgress = std::function<bool(int64_t done, int64_t all)>;

// Hands what `decode` makes of each file on to `take`, one after the other in the sequence of the list. Fails as `take`
// does, or with Aborted where `progress` ends it.
absl::Status DecodeAll(const std::vector<ImageList::Entry>& entries,
                       const std::function<absl::StatusOr<Pixels>(const std::string& path)>& decode,
                       const ImageProgress& progress,
                       const std::function<absl::Status(size_t index, absl::StatusOr<Pixels> pixels)>& take);

// What is said where all `broken` files are: of the first, what is wrong.
absl::Status NoneIsWhole(size_t broken, absl::string_view first);

// Takes those images out of the list of which `wrong` says something, and returns what it says. Fails where no image is
// left.
absl::StatusOr<std::vector<std::string>> LeaveOut(const std::vector<std::string>& wrong, ImageList* list);

// Decodes all files and takes those that are broken out of the list. Says what is wrong with each.
absl::StatusOr<std::vector<std::string>> DropBroken(int64_t channels, const ImageProgress& progress, ImageList* list);

}  // namespace snug::core
