#include "engine/run/cuda/cuda_variables.h"

#include <iterator>
#include <utility>

#include "engine/base/status.h"
#include "memory/problem.h"

namespace snug::core {

absl::StatusOr<std::unique_ptr<CudaVariables>> CudaVariables::Create(const CudaStreams& streams, int64_t bytes) {
  SNUG_ASSIGN_OR_RETURN(std::unique_ptr<cuda::CudaArena> device, cuda::CudaArena::Create(streams.device(), bytes));
  SNUG_ASSIGN_OR_RETURN(std::unique_ptr<memory::HostArena> host, memory::HostArena::Create(bytes));
  return std::unique_ptr<CudaVariables>(new CudaVariables(streams, std::move(device), std::move(host)));
}

absl::StatusOr<std::byte*> CudaVariables::OnHost(int64_t offset, int64_t bytes, HostAccess access) {
  std::byte* const host = host_->data() + offset;
  if (access != HostAccess::kWrite && !fresh_.contains(offset)) {
    SNUG_RETURN_IF_ERROR(streams_.device()->MakeCurrent());
    SNUG_RETURN_IF_ERROR(streams_[0].Download(host, device_->data() + offset, bytes));
    SNUG_RETURN_IF_ERROR(streams_[0].Synchronize());
  }
  fresh_[offset] = bytes;
  if (access != HostAccess::kRead) written_[offset] = bytes;
  return host;
}

absl::Status CudaVariables::Upload() {
  if (written_.empty()) return absl::OkStatus();
  SNUG_RETURN_IF_ERROR(streams_.device()->MakeCurrent());
  const int64_t alignment = streams_.device()->device().alignment();
  for (auto first = written_.begin(); first != written_.end();) {
    // Variables that lie side by side go in one copy.
    const int64_t begin = first->first;
    int64_t end = begin + first->second;
    auto next = std::next(first);
    for (; next != written_.end() && next->first == memory::AlignUp(end, alignment); ++next) {
      end = next->first + next->second;
    }
    SNUG_RETURN_IF_ERROR(streams_[0].Upload(device_->data() + begin, host_->data() + begin, end - begin));
    first = written_.erase(first, next);
  }
  return absl::OkStatus();
}

}  // namespace snug::core
