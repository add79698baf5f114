#include "engine/train/data/images/image_dataset.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <set>

#include "engine/train/data/loader.h"
#include "engine/train/data/sources.h"
#include "tests/train_data/image_files.h"
#include "tests/train_data/test_files.h"

namespace snug::core {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class ImageDatasetTest : public FileTest {
 protected:
  void SetUp() override {
#if !SNUG_HAS_JPEG || !SNUG_HAS_PNG
    GTEST_SKIP() << "SKIPPED: a build without libjpeg-turbo or libpng";
#endif
  }

  std::string Add(const std::string& name, const std::string& bytes) const {
    std::filesystem::create_directories(std::filesystem::path(PathOf(name)).parent_path());
    return Write(name, bytes);
  }
  // Broken images are skipped where someone asks which.
  absl::StatusOr<std::shared_ptr<const Dataset>> OpenCached(ImageList* list, ImageDatasetOptions options,
                                                            const std::string& name,
                                                            std::vector<std::string>* dropped = nullptr,
                                                            const ImageProgress& progress = nullptr) const {
    std::vector<std::string> none;
    auto cache = ImageCache::Open(PathOf(name),
                                  {.channels = options.channels,
                                   .side = ImageCache::SideFor(options.height, options.width),
                                   .skips_broken = dropped != nullptr,
                                   .progress = progress},
                                  list, dropped != nullptr ? dropped : &none);
    if (!cache.ok()) return cache.status();
    options.cache = *std::move(cache);
    return OpenImages(*list, options);
  }
  // Nine images of three classes.
  std::string AddFlowers() const {
    for (int i = 0; i < 9; ++i) {
      const char* classes[] = {"tulip", "daisy", "rose"};
      const Pixels pixels = Painted(20 + i, 30 - i, 3, [&](int64_t x, int64_t y, int64_t c) {
        return static_cast<int>((x * 5 + y * 3 + c * 50 + i * 20) % 256);
      });
      const std::string name = std::string("flowers/") + classes[i % 3] + "/" + std::to_string(i);
      Add(name + (i % 2 == 0 ? ".jpg" : ".PNG"), i % 2 == 0 ? JpegOf(pixels) : PngOf(pixels));
    }
    return PathOf("flowers");
  }
};

std::vector<int64_t> LabelsOf(const ImageList& list) {
  std::vector<int64_t> labels;
  for (const ImageList::Entry& entry : list.entries) labels.push_back(entry.label);
  return labels;
}

TEST_F(ImageDatasetTest, FoldersAreClassesByName) {
  const auto list = ListFolders(AddFlowers());
  ASSERT_TRUE(list.ok()) << list.status();
  EXPECT_THAT(list->classes, ElementsAre("daisy", "rose", "tulip"));
  EXPECT_THAT(LabelsOf(*list), ElementsAre(0, 0, 0, 1, 1, 1, 2, 2, 2));
  EXPECT_THAT(list->entries[0].path, HasSubstr("flowers/daisy/1.PNG"));
}

TEST_F(ImageDatasetTest, WhatFoldersLackIsSaid) {
  EXPECT_EQ(ErrorOf(ListFolders(PathOf("none"))), "none: No such file or directory");
  Add("flat/a.png", "x");
  EXPECT_EQ(
      ErrorOf(ListFolders(PathOf("flat"))),
      "flat: expected a folder for each class with its images in it, found no folders; `snug predict` needs none");
  Add("empty/daisy/notes.txt", "x");
  EXPECT_EQ(ErrorOf(ListFolders(PathOf("empty"))),
            "empty/daisy: expected images (.jpg, .jpeg, .png) of the class \"daisy\", found none");
  Add("test/violet/a.png", "x");
  EXPECT_EQ(ErrorOf(ListFolders(PathOf("test"), {"daisy", "rose"})),
            "test/violet: expected one of the 2 classes of the training images (daisy, rose), found \"violet\"");
}

TEST_F(ImageDatasetTest, WhatNeverEndsIsRefused) {
  AddFlowers();
  namespace fs = std::filesystem;
  fs::create_directory_symlink(PathOf("flowers/rose"), PathOf("flowers/tulip/roses"));
  const auto list = ListFolders(PathOf("flowers"));
  ASSERT_TRUE(list.ok()) << list.status();
  EXPECT_EQ(list->entries.size(), 12u) << "a link to a folder elsewhere is as good as a folder";
  fs::create_directory_symlink(PathOf("flowers/tulip"), PathOf("flowers/rose/tulips"));
  EXPECT_THAT(
      ErrorOf(ListFolders(PathOf("flowers"))),
      HasSubstr("flowers/rose/tulips/roses: expected a folder with images, found a link to a folder that it lies "
                "in, "));
  fs::remove(PathOf("flowers/rose/tulips"));
  ASSERT_EQ(mkfifo(PathOf("flowers/rose/waits.png").c_str(), 0600), 0);
  EXPECT_EQ(ErrorOf(ListFolders(PathOf("flowers"))),
            "flowers/rose/waits.png: expected an image's file, found a pipe or device");
  EXPECT_EQ(ErrorOf(ListTable(Write("a.csv", "rose/waits.png,red\n"), PathOf("flowers"))),
            "a.csv:1:1: expected an image's file, found flowers/rose/waits.png, which is no file");
}

TEST_F(ImageDatasetTest, TablesNameFilesAndClasses) {
  AddFlowers();
  const std::string table = Write("list.csv", "file,class\ndaisy/1.PNG,white\nrose/2.jpg,red\n\"tulip/0.jpg\",red\n");
  const auto list = ListTable(table, PathOf("flowers"));
  ASSERT_TRUE(list.ok()) << list.status();
  EXPECT_THAT(list->classes, ElementsAre("red", "white"));
  EXPECT_THAT(LabelsOf(*list), ElementsAre(1, 0, 0));
  EXPECT_EQ(ErrorOf(ListTable(Write("a.csv", "daisy/1.PNG,white\ndaisy/7.jpg,white\n"), PathOf("flowers"))),
            "a.csv:2:1: expected a file, found no flowers/daisy/7.jpg");
  EXPECT_EQ(ErrorOf(ListTable(Write("a.csv", "daisy/1.PNG,white,2\n"), PathOf("flowers"))),
            "a.csv:1:1: expected two fields, a file and its class, found 3");
  EXPECT_EQ(ErrorOf(ListTable(Write("a.csv", "daisy/1.PNG,blue\n"), PathOf("flowers"), {"red", "white"})),
            "a.csv:1:13: expected one of the 2 classes of the training images (red, white), found \"blue\"");
}

TEST_F(ImageDatasetTest, ImagesOfNoClassAreListedWhereTheyMayBe) {
  const std::vector<std::string> classes = {"daisy", "rose"};
  Add("new/b.png", "x");
  Add("new/a.JPG", "x");
  Add("new/notes.txt", "x");
  const auto flat = ListFolders(PathOf("new"), classes, /*may_lack_labels=*/true);
  ASSERT_TRUE(flat.ok()) << flat.status();
  EXPECT_EQ(flat->unlabelled, PathOf("new") + " has no folders");
  EXPECT_EQ(flat->classes, classes);
  EXPECT_THAT(LabelsOf(*flat), ElementsAre(kIgnoredLabel, kIgnoredLabel));
  EXPECT_THAT(flat->entries[0].path, HasSubstr("new/a.JPG"));

  // Folders that are no classes are only folders; one that is makes classes of all.
  Add("new/monday/c.png", "x");
  const auto deep = ListFolders(PathOf("new"), classes, true);
  ASSERT_TRUE(deep.ok()) << deep.status();
  EXPECT_EQ(deep->unlabelled, "no folder in " + PathOf("new") + " has the name of a class");
  EXPECT_EQ(deep->entries.size(), 3u);
  EXPECT_THAT(ErrorOf(ListFolders(PathOf("new"), classes)), HasSubstr("new/monday: expected one of the 2 classes"));
  Add("new/rose/d.png", "x");
  EXPECT_THAT(ErrorOf(ListFolders(PathOf("new"), classes, true)),
              HasSubstr("new/monday: expected one of the 2 classes"));
  // Where no classes are known, folders are.
  const auto folders = ListFolders(PathOf("new"), {}, true);
  ASSERT_TRUE(folders.ok()) << folders.status();
  EXPECT_EQ(folders->unlabelled, "");
  EXPECT_THAT(folders->classes, ElementsAre("monday", "rose"));
  EXPECT_EQ(folders->of_no_folder,
            "left out: 2 images in " + PathOf("new") + " itself, beside the folders of classes: a.JPG, ...");
  EXPECT_EQ(flat->of_no_folder, "");

  std::filesystem::create_directories(PathOf("bare"));
  EXPECT_EQ(ErrorOf(ListFolders(PathOf("bare"), classes, true)),
            "bare: expected images (.jpg, .jpeg, .png), or a folder for each class with its images, found none");
  EXPECT_EQ(ErrorOf(ListFolders(PathOf("none"), classes, true)), "none: No such file or directory");
  EXPECT_EQ(ErrorOf(ListFolders(PathOf("new/a.JPG"), classes, true)),
            "new/a.JPG: expected a folder with images, found a file");
}

TEST_F(ImageDatasetTest, TablesMayNameFilesAloneWhereTheyMay) {
  AddFlowers();
  const std::string table = Write("list.csv", "file\nrose/2.jpg\n\"daisy/1.PNG\"\n");
  const auto list = ListTable(table, PathOf("flowers"), {"red"}, /*may_lack_labels=*/true);
  ASSERT_TRUE(list.ok()) << list.status();
  EXPECT_EQ(list->unlabelled, table + " has files alone");
  EXPECT_THAT(LabelsOf(*list), ElementsAre(kIgnoredLabel, kIgnoredLabel));
  EXPECT_THAT(list->entries[0].path, HasSubstr("flowers/rose/2.jpg"));
  EXPECT_EQ(ErrorOf(ListTable(table, PathOf("flowers"))),
            "list.csv:1:1: expected two fields, a file and its class, found 1; `snug predict` needs no class");
  EXPECT_EQ(ErrorOf(ListTable(Write("a.csv", "daisy/1.PNG\nrose/2.jpg,red\n"), PathOf("flowers"), {}, true)),
            "a.csv:2:1: expected one field, a file, as above, found 2");
  EXPECT_EQ(ErrorOf(ListTable(Write("a.csv", "daisy/1.PNG,red\nrose/2.jpg\n"), PathOf("flowers"), {}, true)),
            "a.csv:2:1: expected two fields, a file and its class, found 1");
  EXPECT_EQ(ErrorOf(ListTable(Write("a.csv", "file\nrose/7.jpg\n"), PathOf("flowers"), {}, true)),
            "a.csv:2:1: expected a file, found no flowers/rose/7.jpg");
  const auto labelled = ListTable(Write("a.csv", "daisy/1.PNG,red\n"), PathOf("flowers"), {}, true);
  ASSERT_TRUE(labelled.ok()) << labelled.status();
  EXPECT_EQ(labelled->unlabelled, "");
}

TEST_F(ImageDatasetTest, SamplesAreDrawnAnewInEachEpochAndJudgedFromTheMiddle) {
  const auto list = ListFolders(AddFlowers());
  ASSERT_TRUE(list.ok()) << list.status();
  const ImageDatasetOptions judged = {.channels = 3, .height = 8, .width = 8, .seed = 1};
  ImageDatasetOptions drawn = judged;
  drawn.random = true;
  const auto samples = [&](const ImageDatasetOptions& options, int64_t epoch) {
    const auto dataset = OpenImages(*list, options);
    EXPECT_TRUE(dataset.ok()) << dataset.status();
    std::vector<float> image(3 * 8 * 8);
    int32_t label = -1;
    std::byte* fields[] = {reinterpret_cast<std::byte*>(image.data()), reinterpret_cast<std::byte*>(&label)};
    EXPECT_TRUE((*dataset)->ReadInEpoch(epoch, 4, fields).ok());
    EXPECT_EQ(label, 1);
    return image;
  };
  EXPECT_EQ(samples(judged, 0), samples(judged, 1));
  EXPECT_EQ(samples(drawn, 1), samples(drawn, 1));
  EXPECT_NE(samples(drawn, 0), samples(drawn, 1));
  ImageDatasetOptions jittered = drawn;
  jittered.jitter = 0.4;
  EXPECT_NE(samples(jittered, 0), samples(drawn, 0));
  ImageDatasetOptions turned = drawn;
  turned.hue = 0.2;
  EXPECT_NE(samples(turned, 0), samples(drawn, 0));
  turned.random = false;
  EXPECT_EQ(samples(turned, 0), samples(judged, 0));
}

TEST_F(ImageDatasetTest, SharesAreBounded) {
  const ImageDatasetOptions sample = {.channels = 3, .height = 8, .width = 8, .random = true};
  const auto said = [](const ImageDatasetOptions& options) { return std::string(CheckImageSample(options).message()); };
  EXPECT_EQ(said(sample), "");
  ImageDatasetOptions wrong = sample;
  wrong.hue = 0.6;
  EXPECT_EQ(said(wrong), "images: hue: expected 0 to 0.5, found 0.6");
  wrong = sample;
  wrong.hue = 0.1;
  wrong.channels = 1;
  EXPECT_EQ(said(wrong), "images: hue: expected pictures of 3 channels, as grey has no hue; found 1");
  wrong = sample;
  wrong.jitter = -1;
  EXPECT_EQ(said(wrong), "images: jitter: expected 0 to 1, found -1");
  wrong = sample;
  wrong.least_area = std::nan("");
  EXPECT_EQ(said(wrong), "images: least_area: expected 0 to 1, found nan");
}

TEST_F(ImageDatasetTest, ClassesAndSamplesHaveNames) {
  const auto list = ListFolders(AddFlowers());
  ASSERT_TRUE(list.ok()) << list.status();
  const auto dataset = OpenImages(*list, {.channels = 3, .height = 8, .width = 8});
  ASSERT_TRUE(dataset.ok()) << dataset.status();
  EXPECT_EQ((*dataset)->fields()[1].classes, list->classes);
  const auto parted = HoldBack(*dataset, 0.3, 3);
  ASSERT_TRUE(parted.ok()) << parted.status();
  std::set<std::string> names, expected;
  for (const ImageList::Entry& entry : list->entries) expected.insert(entry.path);
  for (const auto& part : {parted->training, parted->held_back}) {
    for (int64_t i = 0; i < part->size(); ++i) names.insert(part->NameOf(i));
  }
  EXPECT_EQ(names, expected);
}

// The bits of batches, whatever the number of readers, with crops, colours and mirror images.
TEST_F(ImageDatasetTest, ReadersDoNotChangeBits) {
  const auto list = ListFolders(AddFlowers());
  ASSERT_TRUE(list.ok()) << list.status();
  const auto dataset = OpenImages(
      *list, {.channels = 3, .height = 12, .width = 10, .random = true, .jitter = 0.3, .hue = 0.1, .seed = 5});
  ASSERT_TRUE(dataset.ok()) << dataset.status();
  const auto parted = HoldBack(*dataset, 0.2, 3);
  ASSERT_TRUE(parted.ok()) << parted.status();
  std::vector<std::vector<std::string>> runs;
  for (const int readers : {1, 2, 4}) {
    const auto loader = Loader::Create(
        parted->training, {.batch = 3, .seed = 9, .image = {.flip = true}, .workers = readers, .buffers = readers + 2});
    ASSERT_TRUE(loader.ok()) << loader.status();
    std::vector<std::string>& batches = runs.emplace_back();
    for (int i = 0; i < 10; ++i) {
      const auto batch = (*loader)->Next();
      ASSERT_TRUE(batch.ok()) << batch.status();
      batches.emplace_back(reinterpret_cast<const char*>((*batch)->data[0]), 3 * 3 * 12 * 10 * sizeof(float));
    }
  }
  EXPECT_EQ(runs[0], runs[1]);
  EXPECT_EQ(runs[0], runs[2]);
  EXPECT_NE(runs[0][0], runs[0][2]);
}

TEST_F(ImageDatasetTest, BrokenFilesAreNamedOrLeftOut) {
  AddFlowers();
  Add("flowers/daisy/broken.jpg", JpegOf(Painted(9, 9, 3, [](int64_t, int64_t, int64_t) { return 3; })).substr(0, 300));
  auto list = ListFolders(PathOf("flowers"));
  ASSERT_TRUE(list.ok()) << list.status();
  const auto refusing = OpenImages(*list, {.height = 8, .width = 8});
  ASSERT_TRUE(refusing.ok()) << refusing.status();
  const Sample sample(**refusing, 3);
  EXPECT_THAT(ErrorOf(sample.status()), HasSubstr("flowers/daisy/broken.jpg: a broken JPEG file: "));

  const auto dropped = DropBroken(3, nullptr, &*list);
  ASSERT_TRUE(dropped.ok()) << dropped.status();
  ASSERT_EQ(dropped->size(), 1U);
  EXPECT_THAT(dropped->front(), HasSubstr("flowers/daisy/broken.jpg: a broken JPEG file: "));
  EXPECT_EQ(list->entries.size(), 9U);

  ImageList none{.classes = {"a"}, .entries = {{PathOf("flowers/daisy/broken.jpg"), 0}}};
  EXPECT_THAT(ErrorOf(DropBroken(3, nullptr, &none)),
              HasSubstr("expected some that can be read, found none; the first of 1: "));
}

// A picture from a camera that was held sideways, beside the same one upright: whatever is cut out of them is the same.
TEST_F(ImageDatasetTest, HowTheCameraWasHeldChangesNoSample) {
  const auto colour = [](int64_t x, int64_t y, int64_t c) { return static_cast<int>((x * 5 + y * 3 + c * 50) % 256); };
  const Pixels upright = Painted(24, 40, 3, colour);
  // Turned right, this is the above: its rows are the columns, from the last on.
  const Pixels stored = Painted(40, 24, 3, [&](int64_t x, int64_t y, int64_t c) { return colour(23 - y, x, c); });
  Add("upright/a/1.png", PngOf(upright));
  Add("held/a/1.png", WithExif(PngOf(stored), ExifOf(6)));
  for (const bool random : {false, true}) {
    for (const bool cached : {false, true}) {
      std::vector<std::vector<float>> images;
      for (const char* const folder : {"upright", "held"}) {
        auto list = ListFolders(PathOf(folder));
        ASSERT_TRUE(list.ok()) << list.status();
        const ImageDatasetOptions options = {.height = 8, .width = 8, .random = random, .seed = 3};
        const auto dataset =
            cached ? OpenCached(&*list, options, std::string(folder) + ".pixels") : OpenImages(*list, options);
        ASSERT_TRUE(dataset.ok()) << dataset.status();
        images.push_back(Sample(**dataset, 0).Field<float>(0));
      }
      EXPECT_EQ(images[0], images[1]) << "random: " << random << ", cached: " << cached;
    }
  }
}

TEST_F(ImageDatasetTest, ACacheOfAnotherVersionIsMadeAnew) {
  auto list = ListFolders(AddFlowers());
  ASSERT_TRUE(list.ok()) << list.status();
  const std::string path = PathOf("pixels");
  const ImageDatasetOptions options = {.height = 8, .width = 8};
  ASSERT_TRUE(OpenCached(&*list, options, "pixels").ok());
  std::string bytes;
  {
    std::ifstream file(path, std::ios::binary);
    bytes = std::string(std::istreambuf_iterator<char>(file), {});
  }
  ASSERT_EQ(bytes.substr(0, 8), "SnugPix2");
  std::string older = bytes;
  older[7] = '1';
  older.back() = static_cast<char>(older.back() + 1);  // a pixel that it has otherwise
  Write("pixels", older);
  ASSERT_TRUE(OpenCached(&*list, options, "pixels").ok());
  std::ifstream file(path, std::ios::binary);
  EXPECT_TRUE(std::string(std::istreambuf_iterator<char>(file), {}) == bytes);
}

// What is broken is found as the cache is made, and remembered there.
TEST_F(ImageDatasetTest, ACacheKnowsWhatIsBroken) {
  AddFlowers();
  const std::string part = JpegOf(Painted(9, 9, 3, [](int64_t, int64_t, int64_t) { return 3; })).substr(0, 300);
  Add("flowers/daisy/broken.jpg", part);
  const ImageDatasetOptions options = {.height = 8, .width = 8};
  const auto listed = ListFolders(PathOf("flowers"));
  ASSERT_TRUE(listed.ok()) << listed.status();
  ImageList all = *listed;
  EXPECT_THAT(ErrorOf(OpenCached(&all, options, "pixels")),
              HasSubstr("flowers/daisy/broken.jpg: a broken JPEG file: "));
  EXPECT_FALSE(std::filesystem::exists(PathOf("pixels")));

  ImageList whole = *listed;
  ASSERT_TRUE(DropBroken(3, nullptr, &whole).ok());
  const auto direct = OpenCached(&whole, options, "of_whole");
  ASSERT_TRUE(direct.ok()) << direct.status();
  for (const int64_t decoded : {10, 0}) {  // the second time it is there
    ImageList list = *listed;
    int64_t heard = 0;
    std::vector<std::string> dropped;
    const auto cached = OpenCached(&list, options, "pixels", &dropped, [&](int64_t, int64_t images) {
      heard = images;
      return true;
    });
    ASSERT_TRUE(cached.ok()) << cached.status();
    EXPECT_EQ(heard, decoded);
    ASSERT_EQ(dropped.size(), 1U);
    EXPECT_THAT(dropped.front(), HasSubstr("flowers/daisy/broken.jpg: a broken JPEG file: "));
    ASSERT_EQ((*cached)->size(), 9);
    for (int64_t i = 0; i < 9; ++i) {
      EXPECT_EQ((*cached)->NameOf(i), (*direct)->NameOf(i));
      EXPECT_EQ(Sample(**cached, i).Field<float>(0), Sample(**direct, i).Field<float>(0)) << i;
    }
  }
  // Who asks for all of them still hears of it.
  EXPECT_THAT(ErrorOf(OpenCached(&all, options, "pixels")), HasSubstr("broken.jpg: a broken JPEG file: "));

  ImageList none{.classes = {"a"}, .entries = {{PathOf("flowers/daisy/broken.jpg"), 0}}};
  std::vector<std::string> dropped;
  EXPECT_THAT(ErrorOf(OpenCached(&none, options, "none", &dropped)),
              HasSubstr("expected some that can be read, found none; the first of 1: "));
  EXPECT_FALSE(std::filesystem::exists(PathOf("none")));
}

TEST_F(ImageDatasetTest, DecodingAllIsTalkedOfAndCanBeEnded) {
  auto list = ListFolders(AddFlowers());
  ASSERT_TRUE(list.ok()) << list.status();
  const ImageList::Entry entry = list->entries[0];
  list->entries.assign(1000, entry);
  std::vector<int64_t> heard;
  const auto until = [&](int64_t end) {
    heard.clear();
    return [&heard, end](int64_t done, int64_t all) {
      EXPECT_EQ(all, 1000);
      heard.push_back(done);
      return done < end;
    };
  };
  ASSERT_TRUE(DropBroken(3, until(1001), &*list).ok());
  EXPECT_EQ(heard.front(), 0);
  EXPECT_TRUE(std::is_sorted(heard.begin(), heard.end()));
  const int64_t second = heard[1];
  const auto ended = DropBroken(3, until(1), &*list);
  EXPECT_EQ(ended.status().code(), absl::StatusCode::kAborted);
  EXPECT_EQ(ErrorOf(ended),
            "images: stopped when " + std::to_string(second) + " of 1000 were decoded, of which nothing is kept");
  // A stop is heard behind the last of them, too.
  EXPECT_EQ(ErrorOf(DropBroken(
                3, [](int64_t done, int64_t all) { return done < all; }, &*list)),
            "images: stopped when 1000 of 1000 were decoded, of which nothing is kept");
  std::vector<std::string> dropped;
  EXPECT_THAT(ErrorOf(OpenCached(&*list, {.height = 8, .width = 8}, "pixels", &dropped, until(1))),
              HasSubstr("images: stopped when "));
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(PathOf("")), {}), 1) << "the flowers alone";
}

TEST_F(ImageDatasetTest, ACacheServesUntilTheFilesChange) {
  AddFlowers();
  auto list = ListFolders(PathOf("flowers"));
  ASSERT_TRUE(list.ok()) << list.status();
  const std::string path = PathOf("pixels");
  const ImageDatasetOptions options = {.channels = 3, .height = 8, .width = 8};
  const auto first = OpenCached(&*list, options, "pixels");
  ASSERT_TRUE(first.ok()) << first.status();
  const auto made = std::filesystem::last_write_time(path);
  const std::vector<float> image = Sample(**first, 2).Field<float>(0);
  // The shorter side of these images is 10 there; in the files it is 20 to 28.
  const std::vector<float> direct_image = Sample(**OpenImages(*list, options), 2).Field<float>(0);
  for (size_t i = 0; i < image.size(); ++i) EXPECT_NEAR(image[i], direct_image[i], 0.25) << i;

  ASSERT_TRUE(OpenCached(&*list, options, "pixels").ok());
  EXPECT_EQ(std::filesystem::last_write_time(path), made);

  Add("flowers/daisy/1.PNG", PngOf(Painted(16, 16, 3, [](int64_t, int64_t, int64_t) { return 255; })));
  const auto second = OpenCached(&*list, options, "pixels");
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_NE(std::filesystem::last_write_time(path), made);
  EXPECT_EQ(Sample(**second, 0).Field<float>(0)[5], 1);

  // A file that is no cache, or half of one, is made anew.
  const std::string whole = [&] {
    std::ifstream file(path, std::ios::binary);
    return std::string(std::istreambuf_iterator<char>(file), {});
  }();
  Write("pixels", whole.substr(0, whole.size() / 2));
  ASSERT_TRUE(OpenCached(&*list, options, "pixels").ok());
  EXPECT_EQ(std::filesystem::file_size(path), whole.size());
  Write("notes", "mine");
  EXPECT_EQ(ErrorOf(OpenCached(&*list, options, "notes")),
            "notes: expected a cache of images, or no file yet; found another file, which is left alone");
  std::filesystem::remove(PathOf("notes"));
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(PathOf("")), {}), 2) << "flowers, and the cache";
}

}  // namespace
}  // namespace snug::core
