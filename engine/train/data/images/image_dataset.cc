#include "engine/train/data/images/image_dataset.h"

#include <absl/strings/str_cat.h>

#include <algorithm>
#include <vector>

#include "engine/base/hash.h"
#include "engine/base/status.h"
#include "engine/train/data/images/codec.h"
#include "engine/train/data/images/crop.h"
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
  ImageDataset(const ImageList& list, const ImageDatasetOptions& options)
      : Dataset(FieldsOf(list, options), static_cast<int64_t>(list.entries.size())),
        options_(options),
        entries_(list.entries),
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
    if (options_.cache != nullptr) {
      const PixelView image = options_.cache->image(sample);
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
    const ColourJitter jitter = {.amount = static_cast<float>(options_.jitter),
                                 .hue = static_cast<float>(options_.hue)};
    if (options_.random && jitter.any()) {
      JitterColours(planes, options_.channels, options_.height * options_.width, jitter, colours_, draw_epoch,
                    draw_sample);
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
  Philox boxes_, colours_;
};

}  // namespace

absl::Status CheckImageSample(const ImageDatasetOptions& options) {
  if (options.channels != 1 && options.channels != 3) {
    return absl::InvalidArgumentError(
        absl::StrCat("images: expected 1 channel (grey) or 3 (colours), found ", options.channels));
  }
  if (options.height < 1 || options.width < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("images: expected a size of at least 1, found ", options.height, " x ", options.width));
  }
  const auto share = [](absl::string_view name, double value, double most) {
    if (value >= 0 && value <= most) return absl::OkStatus();  // a NaN is neither
    return absl::InvalidArgumentError(absl::StrCat("images: ", name, ": expected 0 to ", most, ", found ", value));
  };
  SNUG_RETURN_IF_ERROR(share("least_area", options.least_area, 1));
  SNUG_RETURN_IF_ERROR(share("jitter", options.jitter, 1));
  if (options.hue > 0 && options.channels == 1) {
    return absl::InvalidArgumentError("images: hue: expected pictures of 3 channels, as grey has no hue; found 1");
  }
  return share("hue", options.hue, 0.5);
}

absl::StatusOr<std::shared_ptr<const Dataset>> OpenImages(const ImageList& list, const ImageDatasetOptions& options) {
  SNUG_RETURN_IF_ERROR(CheckImageSample(options));
  return std::make_shared<const ImageDataset>(list, options);
}

}  // namespace snug::core
