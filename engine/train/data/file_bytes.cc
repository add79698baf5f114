#include "engine/train/data/file_bytes.h"

#include <absl/strings/str_cat.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <limits>
#include <utility>

#include "engine/base/status.h"

namespace snug::core {
namespace {

class Descriptor {
 public:
  explicit Descriptor(const std::string& path) : fd_(open(path.c_str(), O_RDONLY | O_CLOEXEC)) {}
  ~Descriptor() {
    if (fd_ >= 0) close(fd_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return fd_; }

 private:
  int fd_;
};

bool Gzipped(absl::Span<const uint8_t> bytes) { return bytes.size() >= 2 && bytes[0] == 0x1f && bytes[1] == 0x8b; }

absl::StatusOr<std::vector<uint8_t>> Gunzip(const FileBytes& file) {
  constexpr int kGzipFormat = 16 + MAX_WBITS;
  constexpr size_t kMaxChunk = std::numeric_limits<uInt>::max();  // zlib counts in 32 bits
  const absl::Span<const uint8_t> packed = file.bytes();
  z_stream stream = {};
  SNUG_CHECK(inflateInit2(&stream, kGzipFormat) == Z_OK);
  std::vector<uint8_t> unpacked(std::max<size_t>(size_t{1} << 16, 4 * packed.size()));
  size_t taken = 0;
  size_t given = 0;
  int code = Z_OK;
  while (code == Z_OK || code == Z_BUF_ERROR) {
    if (given == unpacked.size()) unpacked.resize(2 * given);
    stream.next_in = const_cast<Bytef*>(packed.data() + taken);
    stream.next_out = unpacked.data() + given;
    const size_t input = std::min(packed.size() - taken, kMaxChunk);
    const size_t room = std::min(unpacked.size() - given, kMaxChunk);
    stream.avail_in = static_cast<uInt>(input);
    stream.avail_out = static_cast<uInt>(room);
    code = inflate(&stream, Z_NO_FLUSH);
    taken += input - stream.avail_in;
    given += room - stream.avail_out;
    if (code == Z_STREAM_END && taken < packed.size() && Gzipped(packed.subspan(taken))) {
      code = inflateReset(&stream);  // a gzip file may consist of several, one behind the other
    } else if (taken == packed.size() && code != Z_STREAM_END && stream.avail_out != 0) {
      break;
    }
  }
  const std::string reason = stream.msg == nullptr ? "" : absl::StrCat(" (", stream.msg, ")");
  inflateEnd(&stream);
  const auto at = static_cast<int64_t>(taken);
  if (code == Z_DATA_ERROR) return file.Error(at, absl::StrCat("the gzipped data are damaged", reason));
  if (code != Z_STREAM_END) return file.Error(at, "the gzipped data end in the middle: the file was cut short");
  if (taken != packed.size()) return file.Error(at, "expected the end of the file after the gzipped data, found more");
  unpacked.resize(given);
  return unpacked;
}

}  // namespace

absl::StatusOr<std::shared_ptr<const FileBytes>> FileBytes::Open(const std::string& path) {
  const Descriptor descriptor(path);
  struct stat info = {};
  if (descriptor.get() < 0 || fstat(descriptor.get(), &info) != 0) {
    const int error = errno;
    const std::string message = absl::StrCat(path, ": cannot be opened: ", std::strerror(error));
    return error == ENOENT ? absl::NotFoundError(message) : absl::FailedPreconditionError(message);
  }
  if (!S_ISREG(info.st_mode)) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": expected a file, found ", S_ISDIR(info.st_mode) ? "a directory" : "something else"));
  }
  const std::shared_ptr<FileBytes> file(new FileBytes(path));
  if (info.st_size == 0) return file;
  const auto size = static_cast<size_t>(info.st_size);
  void* const mapping = mmap(nullptr, size, PROT_READ, MAP_PRIVATE, descriptor.get(), 0);
  if (mapping == MAP_FAILED) {
    return absl::FailedPreconditionError(
        absl::StrCat(path, ": cannot be mapped into memory (", size, " bytes): ", std::strerror(errno)));
  }
  file->mapping_ = mapping;
  file->mapped_bytes_ = size;
  file->bytes_ = {static_cast<const uint8_t*>(mapping), size};
  if (Gzipped(file->bytes_)) {
    SNUG_ASSIGN_OR_RETURN(file->unpacked_, Gunzip(*file));
    file->bytes_ = file->unpacked_;
    munmap(std::exchange(file->mapping_, nullptr), size);
  }
  return file;
}

FileBytes::~FileBytes() {
  if (mapping_ != nullptr) munmap(mapping_, mapped_bytes_);
}

absl::Status FileBytes::Error(int64_t offset, absl::string_view message) const {
  return absl::InvalidArgumentError(absl::StrCat(path_, ": byte ", offset, ": ", message));
}

absl::Status FileBytes::CheckSize(int64_t expected, absl::string_view why) const {
  if (size() == expected) return absl::OkStatus();
  if (size() < expected) {
    return Error(size(), absl::StrCat("the file ends here, expected ", expected, " bytes (", why,
                                      "): it was cut short, fetch it again"));
  }
  return Error(expected,
               absl::StrCat("expected the end of the file here (", why, "), found ", size() - expected, " more bytes"));
}

}  // namespace snug::core
