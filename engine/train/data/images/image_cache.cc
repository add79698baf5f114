#include "engine/train/data/images/image_cache.h"

#include <absl/strings/str_cat.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstring>

#include "engine/base/hash.h"
#include "engine/base/random.h"
#include "engine/base/status.h"
#include "engine/train/data/images/resize.h"

namespace snug::core {
namespace {

// What the file begins with; then a Place for each image, then their bytes.
struct CacheHeader {
  // The last byte is the version, which is another where pixels are: 1 had pictures as they are stored, 2 has them
  // upright.
  char magic[8] = {'S', 'n', 'u', 'g', 'P', 'i', 'x', '2'};
  uint64_t made_from = 0;
  int64_t images = 0;
  int64_t channels = 0;
  int64_t file_bytes = 0;  // of the whole cache
};

// Of an image's pixels; or, of a file that is broken, of the text that says why: `height` bytes of it, and no width.
struct Place {
  int64_t width = 0, height = 0, offset = 0;

  bool broken() const { return width == 0; }
};

Place PlaceOf(const FileBytes& file, int64_t index) {
  Place place;
  std::memcpy(&place, file.bytes().data() + sizeof(CacheHeader) + static_cast<size_t>(index) * sizeof place,
              sizeof place);
  return place;
}

// Tells files from each other without reading them, as build tools do.
absl::StatusOr<uint64_t> MadeFrom(const ImageList& list, int64_t channels, int64_t side) {
  uint64_t key = MixKeys(static_cast<uint64_t>(channels), static_cast<uint64_t>(side));
  for (const ImageList::Entry& entry : list.entries) {
    struct stat info {};
    if (::stat(entry.path.c_str(), &info) != 0) {
      return absl::NotFoundError(absl::StrCat(entry.path, ": ", std::strerror(errno)));
    }
    key = MixKeys(key, HashName(entry.path));
    key = MixKeys(key, static_cast<uint64_t>(info.st_size));
    key = MixKeys(
        key, static_cast<uint64_t>(info.st_mtim.tv_sec) * 1'000'000'000U + static_cast<uint64_t>(info.st_mtim.tv_nsec));
  }
  return key;
}

// Of any version.
bool IsCache(const FileBytes& file) {
  const CacheHeader wanted;
  return file.size() >= static_cast<int64_t>(sizeof wanted.magic) &&
         std::memcmp(file.bytes().data(), wanted.magic, sizeof wanted.magic - 1) == 0;
}

// Whether every image lies within the file, and none is broken unless that may be.
bool IsWhole(const FileBytes& file, const CacheHeader& header, bool may_be_broken) {
  const auto begin = static_cast<int64_t>(sizeof header);
  if (header.images > (file.size() - begin) / static_cast<int64_t>(sizeof(Place))) return false;
  for (int64_t i = 0; i < header.images; ++i) {
    const Place place = PlaceOf(file, i);
    if (place.width < 0 || place.height < 1 || place.offset < begin || place.offset >= file.size()) return false;
    if (place.broken() && !may_be_broken) return false;
    const int64_t bytes = file.size() - place.offset;
    if (place.height > (place.broken() ? bytes : bytes / header.channels / place.width)) return false;
  }
  return true;
}

bool Serves(const FileBytes& file, uint64_t made_from, int64_t channels, size_t images, bool may_be_broken) {
  CacheHeader found;
  if (file.size() < static_cast<int64_t>(sizeof found)) return false;
  std::memcpy(&found, file.bytes().data(), sizeof found);
  return std::memcmp(found.magic, CacheHeader().magic, sizeof found.magic) == 0 && found.made_from == made_from &&
         found.channels == channels && found.images == static_cast<int64_t>(images) &&
         found.file_bytes == file.size() && IsWhole(file, found, may_be_broken);
}

// Decodes, and draws the image smaller where its shorter side is longer than `side`.
absl::StatusOr<Pixels> Shrunk(const std::string& path, int64_t channels, int64_t side) {
  SNUG_ASSIGN_OR_RETURN(const ImageFile file, ImageFile::Open(path));
  SNUG_ASSIGN_OR_RETURN(Pixels pixels, file.Decode(channels));
  const int64_t shorter = std::min(pixels.width, pixels.height);
  if (shorter <= side) return pixels;
  Pixels small{.width = pixels.width * side / shorter, .height = pixels.height * side / shorter, .channels = channels};
  const auto plane = static_cast<size_t>(small.width * small.height);
  std::vector<float> planes(plane * static_cast<size_t>(channels)), scratch;
  const ImageBox all = {
      .left = 0, .top = 0, .width = static_cast<double>(pixels.width), .height = static_cast<double>(pixels.height)};
  ResizeBox(pixels.view(), all, small.height, small.width, planes.data(), &scratch);
  small.bytes.resize(planes.size());
  for (size_t i = 0; i < plane; ++i) {
    for (size_t c = 0; c < static_cast<size_t>(channels); ++c) {
      small.bytes[i * static_cast<size_t>(channels) + c] =
          static_cast<uint8_t>(std::clamp(planes[c * plane + i] * 255 + 0.5F, 0.0F, 255.0F));
    }
  }
  return small;
}

// A file under another name, which is removed unless it becomes the cache.
class NewFile {
 public:
  explicit NewFile(const std::string& path)
      : path_(path), name_(absl::StrCat(path, ".", ::getpid(), ".new")), file_(std::fopen(name_.c_str(), "wb")) {}
  ~NewFile() {
    if (file_ != nullptr) std::fclose(file_);
    if (!done_) std::remove(name_.c_str());
  }
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;

  absl::Status Write(const void* bytes, size_t n) {
    if (file_ == nullptr || std::fwrite(bytes, 1, n, file_) != n) return Error("cannot be written");
    return absl::OkStatus();
  }
  absl::Status Rewind() {
    if (file_ == nullptr || std::fseek(file_, 0, SEEK_SET) != 0) return Error("cannot be written");
    return absl::OkStatus();
  }
  absl::Status Finish() {
    const bool written = std::fflush(file_) == 0 && ::fsync(::fileno(file_)) == 0;
    const bool closed = std::fclose(file_) == 0;
    file_ = nullptr;
    if (!written || !closed) return Error("cannot be written");
    if (std::rename(name_.c_str(), path_.c_str()) != 0) return Error("cannot take its name");
    done_ = true;
    return absl::OkStatus();
  }

 private:
  absl::Status Error(absl::string_view what) const {
    return absl::UnavailableError(absl::StrCat("the cache of images ", path_, " ", what, ": ", std::strerror(errno)));
  }

  std::string path_, name_;
  std::FILE* file_;
  bool done_ = false;
};

absl::Status Make(const std::string& path, const ImageList& list, const ImageCacheOptions& options,
                  uint64_t made_from) {
  std::vector<Place> places(list.entries.size());
  CacheHeader header;
  header.made_from = made_from;
  header.images = static_cast<int64_t>(places.size());
  header.channels = options.channels;
  header.file_bytes = static_cast<int64_t>(sizeof header + places.size() * sizeof(Place));

  NewFile file(path);
  SNUG_RETURN_IF_ERROR(file.Write(&header, sizeof header));
  SNUG_RETURN_IF_ERROR(file.Write(places.data(), places.size() * sizeof(Place)));
  const auto add = [&](size_t index, int64_t width, int64_t height, const void* bytes, size_t size) {
    places[index] = {width, height, header.file_bytes};
    header.file_bytes += static_cast<int64_t>(size);
    return file.Write(bytes, size);
  };
  size_t broken = 0;
  std::string first_wrong;
  SNUG_RETURN_IF_ERROR(DecodeAll(
      list.entries, [&](const std::string& image) { return Shrunk(image, options.channels, options.side); },
      options.progress,
      [&](size_t i, const absl::StatusOr<Pixels>& pixels) {
        if (pixels.ok()) return add(i, pixels->width, pixels->height, pixels->bytes.data(), pixels->bytes.size());
        // What is wrong with a file's content stays wrong; what keeps this process from reading it may not.
        const bool content = absl::IsInvalidArgument(pixels.status()) || absl::IsDataLoss(pixels.status());
        if (!options.skips_broken || !content) return pixels.status();
        const absl::string_view wrong = pixels.status().message();
        // Where nothing can be read, there is nothing to keep: the list fails.
        if (++broken == 1) first_wrong = std::string(wrong);
        if (broken == list.entries.size()) return NoneIsWhole(broken, first_wrong);
        return add(i, /*width=*/0, static_cast<int64_t>(wrong.size()), wrong.data(), wrong.size());
      }));
  SNUG_RETURN_IF_ERROR(file.Rewind());
  SNUG_RETURN_IF_ERROR(file.Write(&header, sizeof header));
  SNUG_RETURN_IF_ERROR(file.Write(places.data(), places.size() * sizeof(Place)));
  return file.Finish();
}

}  // namespace

int64_t ImageCache::SideFor(int64_t height, int64_t width) {
  return static_cast<int64_t>(std::ceil(static_cast<double>(std::max(height, width)) * 256 / 224));
}

absl::StatusOr<std::shared_ptr<const ImageCache>> ImageCache::Open(const std::string& path,
                                                                   const ImageCacheOptions& options, ImageList* list,
                                                                   std::vector<std::string>* dropped) {
  SNUG_ASSIGN_OR_RETURN(const uint64_t made_from, MadeFrom(*list, options.channels, options.side));
  absl::StatusOr<std::shared_ptr<const FileBytes>> file = FileBytes::Open(path);
  if (file.ok() && (*file)->size() > 0 && !IsCache(**file)) {
    return absl::AlreadyExistsError(
        absl::StrCat(path, ": expected a cache of images, or no file yet; found another file, which is left alone"));
  }
  if (!file.ok() || !Serves(**file, made_from, options.channels, list->entries.size(), options.skips_broken)) {
    SNUG_RETURN_IF_ERROR(Make(path, *list, options, made_from));
    file = FileBytes::Open(path);
    if (!file.ok()) return file.status();
    if (!Serves(**file, made_from, options.channels, list->entries.size(), options.skips_broken)) {
      return absl::UnavailableError(absl::StrCat(
          path,
          ": another cache has taken the place of the one that was just made; each list of images needs its own"));
    }
  }
  std::shared_ptr<ImageCache> cache(new ImageCache(*std::move(file)));
  const std::vector<std::string> wrong = cache->Wrong();
  for (size_t i = 0; i < wrong.size(); ++i) {
    if (wrong[i].empty()) cache->whole_.push_back(static_cast<int64_t>(i));
  }
  SNUG_ASSIGN_OR_RETURN(*dropped, LeaveOut(wrong, list));
  return std::shared_ptr<const ImageCache>(std::move(cache));
}

std::vector<std::string> ImageCache::Wrong() const {
  CacheHeader header;
  std::memcpy(&header, file_->bytes().data(), sizeof header);
  std::vector<std::string> wrong(static_cast<size_t>(header.images));
  for (int64_t i = 0; i < header.images; ++i) {
    const Place place = PlaceOf(*file_, i);
    if (!place.broken()) continue;
    const auto* const text = reinterpret_cast<const char*>(file_->bytes().data() + place.offset);
    wrong[static_cast<size_t>(i)] = std::string(text, static_cast<size_t>(place.height));
  }
  return wrong;
}

PixelView ImageCache::image(int64_t index) const {
  const uint8_t* bytes = file_->bytes().data();
  CacheHeader header;
  std::memcpy(&header, bytes, sizeof header);
  const Place place = PlaceOf(*file_, whole_[static_cast<size_t>(index)]);
  return {.width = place.width, .height = place.height, .channels = header.channels, .bytes = bytes + place.offset};
}

}  // namespace snug::core
