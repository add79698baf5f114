#include "engine/train/open_images.h"

#include <absl/strings/str_cat.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "engine/base/status.h"
#include "engine/base/text/json.h"
#include "engine/base/text/printable.h"
#include "engine/base/text/utf8.h"
#include "engine/train/checkpoint/json_reader.h"
#include "engine/train/data/images/decode_all.h"
#include "engine/train/data/images/image_cache.h"
#include "engine/train/data/images/image_dataset.h"
#include "engine/train/data/sources.h"
#include "proto/network.pb.h"
#include "proto/train.pb.h"

namespace snug::core {
namespace {

// A key of TrainingData::learnt: the names of the classes by label, a list in JSON.
constexpr char kClassesKey[] = "data.classes";

absl::StatusOr<std::vector<std::string>> ParseClasses(const std::string& text) {
  if (!IsUtf8(text)) return absl::DataLossError("expected UTF-8, found bytes that are none");
  std::vector<std::string> classes;
  checkpoint::JsonReader json(text);
  SNUG_RETURN_IF_ERROR(json.BeginArray());
  for (;;) {
    SNUG_ASSIGN_OR_RETURN(const bool more, json.NextElement());
    if (!more) break;
    SNUG_ASSIGN_OR_RETURN(std::string name, json.String());
    if (!classes.empty() && name <= classes.back()) {
      return json.Error(
          absl::StrCat("expected names in their sequence, found ", Shown(name), " behind ", Shown(classes.back())));
    }
    classes.push_back(std::move(name));
  }
  SNUG_RETURN_IF_ERROR(json.End());
  return classes;
}

// Empty where a checkpoint keeps none: it is older, or was trained on something else.
absl::StatusOr<std::vector<std::string>> KeptClasses(const std::map<std::string, std::string>* kept) {
  if (kept == nullptr || !kept->contains(kClassesKey)) return std::vector<std::string>();
  absl::StatusOr<std::vector<std::string>> classes = ParseClasses(kept->at(kClassesKey));
  if (!classes.ok()) return Annotate(classes.status(), absl::StrCat("metadata \"", kClassesKey, "\""));
  return classes;
}

void KeepClasses(const std::vector<std::string>& classes, TrainingData* opened) {
  const auto other = std::find_if_not(classes.begin(), classes.end(), [](const auto& name) { return IsUtf8(name); });
  if (other != classes.end()) {
    opened->notes.push_back(absl::StrCat("checkpoints keep no names of classes, as ", Shown(*other), " is not UTF-8"));
    return;
  }
  Json json;
  json.Array();
  for (const std::string& name : classes) json.String(name);
  json.End();
  opened->learnt[kClassesKey] = json.text();
}

// A sample is as large as the network's input "image" says: [channels, height, width].
absl::StatusOr<ImageDatasetOptions> SampleOf(const proto::Images& images, const proto::Network& network) {
  ImageDatasetOptions options{.height = images.size(), .width = images.size()};
  for (const proto::Input& input : network.input()) {
    if (input.name() != "image" || input.shape().dim_size() != 3) continue;
    options.channels = input.shape().dim(0);
    if (images.has_size()) return options;
    options.height = input.shape().dim(1);
    options.width = input.shape().dim(2);
    return options;
  }
  return absl::InvalidArgumentError(
      "images: expected a network with an input \"image\" of shape [channels, height, width], found none");
}

absl::StatusOr<ImageList> ListImages(const std::string& directory, const std::string& table,
                                     const std::vector<std::string>& classes, bool may_lack_labels) {
  return table.empty() ? ListFolders(directory, classes, may_lack_labels)
                       : ListTable(table, directory, classes, may_lack_labels);
}

// What is asked of images, and who hears of it.
struct ImageSource {
  const proto::Images& images;
  ImageDatasetOptions sample;  // of evaluation
  const DataProgress& progress;
  std::vector<std::string>* notes;
};

struct UsableImages {
  ImageList list;
  std::shared_ptr<const ImageCache> cache;  // null: their files are read
};

// Says what the list leaves out, leaves out images that are broken where these are to be skipped, and opens the cache
// that is named, which shows by itself which those are. A cache is that of images that are trained on or judged: those
// without labels are read from their files.
absl::StatusOr<UsableImages> Usable(const ImageSource& source, absl::StatusOr<ImageList> list, std::string cache) {
  if (!list.ok()) return list.status();
  UsableImages usable{.list = *std::move(list), .cache = nullptr};
  if (!usable.list.of_no_folder.empty()) source.notes->push_back(usable.list.of_no_folder);
  if (!usable.list.unlabelled.empty()) cache.clear();
  const bool skips_broken = source.images.skip_broken();
  std::vector<std::string> dropped;
  if (!cache.empty()) {
    const ImageCacheOptions options = {.channels = source.sample.channels,
                                       .side = ImageCache::SideFor(source.sample.height, source.sample.width),
                                       .skips_broken = skips_broken,
                                       .progress = source.progress};
    SNUG_ASSIGN_OR_RETURN(usable.cache, ImageCache::Open(cache, options, &usable.list, &dropped));
  } else if (skips_broken) {
    SNUG_ASSIGN_OR_RETURN(dropped, DropBroken(source.sample.channels, source.progress, &usable.list));
  }
  for (const std::string& wrong : dropped) source.notes->push_back(absl::StrCat("left out: ", wrong));
  return usable;
}

absl::StatusOr<std::shared_ptr<const Dataset>> OpenUnlabelled(const ImageList& list, const ImageDatasetOptions& sample,
                                                              std::vector<std::string>* notes) {
  notes->push_back(absl::StrCat(list.entries.size(), " images, of which no labels are known: ", list.unlabelled));
  if (list.classes.empty()) {
    notes->emplace_back("the checkpoint keeps no names of classes, so they are told by their numbers");
  }
  return OpenImages(list, sample);
}

}  // namespace

absl::StatusOr<TrainingData> OpenImageData(const proto::Data& data, const proto::Network& network, uint64_t seed,
                                           const std::map<std::string, std::string>* kept, bool may_lack_labels,
                                           const DataProgress& progress) {
  const proto::Images& images = data.images();
  if (!images.has_directory()) {
    return absl::InvalidArgumentError("the data: the directory of the images is missing: --data-images-directory=FILE");
  }
  SNUG_ASSIGN_OR_RETURN(ImageDatasetOptions sample, SampleOf(images, network));
  sample.least_area = images.least_area();
  sample.jitter = images.jitter();
  sample.hue = images.hue();
  SNUG_RETURN_IF_ERROR(CheckImageSample(sample));
  SNUG_ASSIGN_OR_RETURN(const std::vector<std::string> classes, KeptClasses(kept));
  sample.seed = seed;
  TrainingData opened;
  const ImageSource source = {.images = images, .sample = sample, .progress = progress, .notes = &opened.notes};
  SNUG_ASSIGN_OR_RETURN(
      const UsableImages usable,
      Usable(source, ListImages(images.directory(), images.list(), classes, may_lack_labels), images.cache()));
  const ImageList& list = usable.list;
  sample.cache = usable.cache;
  if (!list.unlabelled.empty()) {
    SNUG_ASSIGN_OR_RETURN(opened.training, OpenUnlabelled(list, sample, &opened.notes));
    opened.lacks_labels = true;
    if (images.has_test_directory() || images.has_test_list()) {
      opened.notes.push_back(absl::StrCat(images.has_test_list() ? images.test_list() : images.test_directory(),
                                          ": is not read: all images of ", images.directory(), " are predicted"));
    }
    return opened;
  }
  opened.notes.push_back(absl::StrCat(list.entries.size(), " images of ", list.classes.size(), " classes"));
  KeepClasses(list.classes, &opened);
  ImageDatasetOptions drawn = sample;
  drawn.random = true;
  SNUG_ASSIGN_OR_RETURN(opened.training, OpenImages(list, drawn));
  SNUG_ASSIGN_OR_RETURN(opened.training_judged, OpenImages(list, sample));
  if (images.has_test_directory() || images.has_test_list()) {
    const std::string& directory = images.has_test_directory() ? images.test_directory() : images.directory();
    SNUG_ASSIGN_OR_RETURN(const UsableImages test,
                          Usable(source, ListImages(directory, images.test_list(), list.classes, may_lack_labels),
                                 images.cache().empty() ? "" : absl::StrCat(images.cache(), ".test")));
    sample.cache = test.cache;
    opened.evaluation_lacks_labels = !test.list.unlabelled.empty();
    SNUG_ASSIGN_OR_RETURN(opened.evaluation, opened.evaluation_lacks_labels
                                                 ? OpenUnlabelled(test.list, sample, &opened.notes)
                                                 : OpenImages(test.list, sample));
    return opened;
  }
  if (data.held_back() == 0) return opened;
  // The same images are held back of both: those trained on are drawn, those judged are not.
  SNUG_ASSIGN_OR_RETURN(PartedDataset judged_parts, HoldBack(opened.training_judged, data.held_back(), seed));
  SNUG_ASSIGN_OR_RETURN(PartedDataset drawn_parts, HoldBack(opened.training, data.held_back(), seed));
  opened.evaluation = std::move(judged_parts.held_back);
  opened.training_judged = std::move(judged_parts.training);
  opened.training = std::move(drawn_parts.training);
  return opened;
}

}  // namespace snug::core
