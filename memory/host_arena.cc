#include "memory/host_arena.h"

#include <absl/status/status.h>
#include <absl/strings/str_cat.h>
#include <sys/mman.h>

#include <cerrno>
#include <cstring>

#include "engine/base/machine.h"

namespace snug::core::memory {

absl::StatusOr<std::unique_ptr<HostArena>> HostArena::Create(int64_t size_bytes) {
  if (size_bytes == 0) return std::unique_ptr<HostArena>(new HostArena(nullptr, 0));
  const int64_t available = AvailableBytes();
  if (available >= 0 && size_bytes > available) {
    return absl::ResourceExhaustedError(absl::StrCat("an arena of ", size_bytes,
                                                     " bytes does not fit: this machine has ", available,
                                                     " bytes available; a smaller --batch needs less"));
  }
  void* data =
      mmap(nullptr, static_cast<size_t>(size_bytes), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (data == MAP_FAILED) {
    return absl::ResourceExhaustedError(
        absl::StrCat("the system refused an arena of ", size_bytes, " bytes: ", std::strerror(errno)));
  }
  madvise(data, static_cast<size_t>(size_bytes), MADV_HUGEPAGE);  // only a hint, so a failure does not matter
  return std::unique_ptr<HostArena>(new HostArena(static_cast<std::byte*>(data), size_bytes));
}

HostArena::~HostArena() {
  if (data_ != nullptr) munmap(data_, static_cast<size_t>(size_bytes_));
}

}  // namespace snug::core::memory
