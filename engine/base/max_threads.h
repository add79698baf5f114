// No machine that this was made for has as many threads, so asking for more is a mistake.
#pragma once

namespace snug::core {

inline constexpr int kMaxThreads = 1024;

}  // namespace snug::core
