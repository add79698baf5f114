#include "engine/run/session/upload_layout.h"

#include "memory/problem.h"

namespace snug::core {

UploadLayout LayOutUploads(const Executable& executable, int64_t alignment) {
  UploadLayout layout;
  for (const Endpoint& input : executable.inputs) {
    const bool uploaded = input.slot.arena != Arena::kCaller;
    layout.offsets.push_back(uploaded ? layout.bytes : -1);
    if (uploaded) layout.bytes += memory::AlignUp(input.type.size_bytes(), alignment);
  }
  return layout;
}

}  // namespace snug::core
