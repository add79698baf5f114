// Tells the core, in each turn of a spinning loop, that it waits for another core.
#pragma once

namespace snug::core {

inline void Pause() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

}  // namespace snug::core
