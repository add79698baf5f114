// What kernels run on: on this depends which there are, and which of them is fastest.
#pragma once

#include <string>

namespace snug {

struct Platform {
  std::string device;        // "cpu"
  std::string instructions;  // "avx512": what our own loops use
  std::string library;       // "oneDNN 2.6.0"; "none"

  friend bool operator==(const Platform&, const Platform&) = default;
};

Platform CpuPlatform();

}  // namespace snug
