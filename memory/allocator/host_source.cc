#include "memory/allocator/host_source.h"

#include <absl/status/status.h>
#include <absl/strings/str_cat.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>

#include "engine/base/machine.h"
#include "engine/base/status.h"
#include "memory/problem.h"

namespace snug::core::memory {
namespace {

constexpr int64_t kPageBytes = 4096;
constexpr int64_t kMappedFrom = int64_t{1} << 20;
// Asking what is available reads a file and takes some 20 us. From this size on, touching the memory for the first time
// takes far longer.
constexpr int64_t kCheckedFrom = int64_t{16} << 20;

absl::Status Refused(int64_t bytes, int error) {
  return absl::ResourceExhaustedError(absl::StrCat("the system refused ", bytes, " bytes: ", std::strerror(error)));
}

// Returns what this process has locked already.
int64_t LockedBytes() {
  std::ifstream status("/proc/self/status");
  for (std::string key; status >> key;) {
    int64_t kib = 0;
    if (key == "VmLck:" && status >> kib) return kib * 1024;
  }
  return 0;
}

int64_t LockLimit() {  // returns -1 when there is none
  rlimit limit{};
  if (getrlimit(RLIMIT_MEMLOCK, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return -1;
  return static_cast<int64_t>(limit.rlim_cur);
}

}  // namespace

HostSource::HostSource(int64_t alignment) : alignment_(alignment) {
  SNUG_CHECK(alignment > 0 && (alignment & (alignment - 1)) == 0 && alignment <= kPageBytes);
}

int64_t HostSource::available_bytes() const { return AvailableBytes(); }

absl::StatusOr<std::byte*> HostSource::Allocate(int64_t bytes) {
  if (bytes >= kCheckedFrom) {
    const int64_t available = AvailableBytes();
    if (available >= 0 && bytes > available) {
      return absl::ResourceExhaustedError(absl::StrCat("this machine has ", available, " bytes available"));
    }
  }
  if (bytes < kMappedFrom) {
    void* address =
        std::aligned_alloc(static_cast<size_t>(alignment_), static_cast<size_t>(AlignUp(bytes, alignment_)));
    if (address == nullptr) return Refused(bytes, ENOMEM);
    return static_cast<std::byte*>(address);
  }
  void* address = mmap(nullptr, static_cast<size_t>(bytes), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (address == MAP_FAILED) return Refused(bytes, errno);
  madvise(address, static_cast<size_t>(bytes), MADV_HUGEPAGE);  // only a hint, so a failure does not matter
  return static_cast<std::byte*>(address);
}

void HostSource::Free(std::byte* address, int64_t bytes) {
  if (bytes < kMappedFrom) {
    std::free(address);
  } else {
    munmap(address, static_cast<size_t>(bytes));
  }
}

int64_t PinnedSource::available_bytes() const {
  const int64_t available = AvailableBytes();
  const int64_t limit = LockLimit();
  if (limit < 0) return available;
  const int64_t lockable = std::max<int64_t>(0, limit - LockedBytes());
  return available < 0 ? lockable : std::min(available, lockable);
}

absl::StatusOr<std::byte*> PinnedSource::Allocate(int64_t bytes) {
  void* address = mmap(nullptr, static_cast<size_t>(bytes), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (address == MAP_FAILED) {
    return absl::ResourceExhaustedError(absl::StrCat("the system refused ", bytes, " bytes: ", std::strerror(errno)));
  }
  if (mlock(address, static_cast<size_t>(bytes)) != 0) {
    const int error = errno;
    munmap(address, static_cast<size_t>(bytes));
    const int64_t limit = LockLimit();
    return absl::ResourceExhaustedError(absl::StrCat(
        "the system refused to lock ", bytes, " bytes: ", std::strerror(error),
        limit < 0 ? "" : absl::StrCat("; this process may lock ", limit, " bytes in all (ulimit -l raises that)")));
  }
  return static_cast<std::byte*>(address);
}

void PinnedSource::Free(std::byte* address, int64_t bytes) { munmap(address, static_cast<size_t>(bytes)); }

}  // namespace snug::core::memory
