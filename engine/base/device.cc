#include "engine/base/device.h"

namespace snug {

std::string Device::ToString() const {
  return (kind == Kind::kCpu ? "cpu:" : "cuda:") + std::to_string(static_cast<int>(index));
}

}  // namespace snug
