#include "engine/train/data/images/image_dataset.h"

#include <absl/strings/str_cat.h>

#include <algorithm>
#include <cmath>
#include <thread>
#include <utility>

#include "engine/base/hash.h"
#include "engine/base/parallel.h"
#include "engine/base/status.h"
#include "engine/train/data/images/codec.h"
#include "engine/train/data/images/crop.h"
#include "engine/train/data/images/image_cache.h"
#include "engine/train/data/images/jitter.h"
#include "engine/train/data/images/resize.h"

namespace snug::core {
namespace {

std::vector<DataField> FieldsOf(const ImageList& list, const ImageDatasetOptions& options) {
  return {{.name = "image", .type = {.shape = {options.channels, options.height, options.width}}},
          {.name = "label",
           .type = {.dtype = DType::kInt32},
           .max_value = static_cast<int64_t>(list.classes.size()),
           .padding = kIgnoredLabel,
           .classes = list.classes}};
}

// By how much the file may be decoded smaller, so that what is cut out still has the sample's size.
int ReductionFor(const ImageBox& box, int64_t height, int64_t width) {
  for (const int reduction : {8, 4, 2}) {
    if (box.width / reduction >= static_cast<double>(width) && box.height / reduction >= static_cast<double>(height)) {
      return reduction;
    }
  }
  return 1;
}

class ImageDataset final : public Dataset {
 public:
  ImageDataset(const ImageList& list, const ImageDatasetOptions& options, std::shared_ptr<const ImageCache> cache)
      : Dataset(FieldsOf(list, options), static_cast<int64_t>(list.entries.size())),
        options_(options),
        entries_(list.entries),
        cache_(std::move(cache)),
        boxes_{MixKeys(options.seed, HashName("box of an image"))},
        colours_{MixKeys(options.seed, HashName("colours of an image"))} {}

  absl::Status Read(int64_t sample, absl::Span<std::byte* const> fields) const override {
    return ReadInEpoch(0, sample, fields);
  }

  absl::Status ReadInEpoch(int64_t epoch, int64_t sample, absl::Span<std::byte* const> fields) const override {
    const ImageList::Entry& entry = entries_[static_cast<size_t>(sample)];
    const auto draw_epoch = static_cast<uint64_t>(epoch), draw_sample = static_cast<uint64_t>(sample);
    auto* planes = reinterpret_cast<float*>(fields[0]);
    thread_local std::vector<float> scratch;
    if (cache_ != nullptr) {
      const PixelView image = cache_->image(sample);
      ResizeBox(image, BoxOf(image.width, image.height, draw_epoch, draw_sample), options_.height, options_.width,
                planes, &scratch);
    } else {
      SNUG_ASSIGN_OR_RETURN(const ImageFile file, ImageFile::Open(entry.path));
      ImageBox box = BoxOf(file.width(), file.height(), draw_epoch, draw_sample);
      SNUG_ASSIGN_OR_RETURN(const Pixels pixels,
                            file.Decode(options_.channels, ReductionFor(box, options_.height, options_.width)));
      const double across = static_cast<double>(pixels.width) / static_cast<double>(file.width());
      const double down = static_cast<double>(pixels.height) / static_cast<double>(file.height());
      box = {
          .left = box.left * across, .top = box.top * down, .width = box.width * across, .height = box.height * down};
      ResizeBox(pixels.view(), box, options_.height, options_.width, planes, &scratch);
    }
    if (options_.random && options_.jitter > 0) {
      JitterColours(planes, options_.channels, options_.height * options_.width, static_cast<float>(options_.jitter),
                    colours_, draw_epoch, draw_sample);
    }
    *reinterpret_cast<int32_t*>(fields[1]) = static_cast<int32_t>(entry.label);
    return absl::OkStatus();
  }

  std::string NameOf(int64_t sample) const override { return entries_[static_cast<size_t>(sample)].path; }

 private:
  ImageBox BoxOf(int64_t width, int64_t height, uint64_t epoch, uint64_t sample) const {
    const double aspect = static_cast<double>(options_.width) / static_cast<double>(options_.height);
    return options_.random ? RandomBox(width, height, options_.least_area, aspect, boxes_, epoch, sample)
                           : MiddleBox(width, height, aspect);
  }

  ImageDatasetOptions options_;
  std::vector<ImageList::Entry> entries_;
  std::shared_ptr<const ImageCache> cache_;
  Philox boxes_, colours_;
};

// A cached image has what evaluation cuts out of it in the sample's own size.
int64_t CacheSide(const ImageDatasetOptions& options) {
  return static_cast<int64_t>(std::ceil(static_cast<double>(std::max(options.height, options.width)) * 256 / 224));
}

}  // namespace

absl::StatusOr<std::shared_ptr<const Dataset>> OpenImages(const ImageList& list, const ImageDatasetOptions& options) {
  if (options.channels != 1 && options.channels != 3) {
    return absl::InvalidArgumentError(
        absl::StrCat("images: expected 1 channel (grey) or 3 (colours), found ", options.channels));
  }
  if (options.height < 1 || options.width < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("images: expected a size of at least 1, found ", options.height, " x ", options.width));
  }
  std::shared_ptr<const ImageCache> cache;
  if (!options.cache.empty()) {
    SNUG_ASSIGN_OR_RETURN(cache, ImageCache::Open(options.cache, list, options.channels, CacheSide(options)));
  }
  return std::make_shared<const ImageDataset>(list, options, std::move(cache));
}

absl::StatusOr<std::vector<std::string>> DropBroken(int64_t channels, ImageList* list) {
  const auto n = static_cast<int64_t>(list->entries.size());
  std::vector<std::string> wrong(static_cast<size_t>(n));
  const auto threads = static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
  ParallelFor(threads, n, /*chunk=*/16, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const absl::StatusOr<ImageFile> file = ImageFile::Open(list->entries[static_cast<size_t>(i)].path);
      absl::Status status = file.status();
      if (status.ok()) status = file->Decode(channels).status();
      if (!status.ok()) wrong[static_cast<size_t>(i)] = std::string(status.message());
    }
  });
  std::vector<ImageList::Entry> whole;
  std::vector<std::string> dropped;
  for (size_t i = 0; i < wrong.size(); ++i) {
    if (wrong[i].empty()) {
      whole.push_back(std::move(list->entries[i]));
    } else {
      dropped.push_back(std::move(wrong[i]));
    }
  }
  list->entries = std::move(whole);
  if (list->entries.empty()) {
    return absl::InvalidArgumentError(absl::StrCat("images: expected some that can be read, found none; the first of ",
                                                   dropped.size(), ": ", dropped.front()));
  }
  return dropped;
}

}  // namespace snug::core
