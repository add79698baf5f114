// Says where the inputs of a step wait on the device for their turn (SessionOptions::upload_ahead): one behind the
// other. Only one batch waits at a time, so the programs of a session share these bytes.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/compile/executable.h"

namespace snug::core {

struct UploadLayout {
  std::vector<int64_t> offsets;  // by input; < 0: it lies where the caller says, and is never uploaded
  int64_t bytes = 0;
};

UploadLayout LayOutUploads(const Executable& executable, int64_t alignment);

}  // namespace snug::core
