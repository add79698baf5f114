// More threads than any machine that this was made for has: what asks for more is a mistake.
#pragma once

namespace snug {

inline constexpr int kMaxThreads = 1024;

}  // namespace snug
