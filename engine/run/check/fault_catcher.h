// Turns an access to memory that must not be touched into a value, instead of the end of the program.
//
// A fault leaves the call as longjmp would: nothing in it is destroyed, so locks that it held stay locked, and memory
// that it took is lost. So this is for debugging, shortly before a run stops. It only catches faults of the calling
// thread; those of other threads go to whoever handled them before.
#pragma once

#include <csignal>
#include <cstddef>
#include <memory>
#include <optional>
#include <type_traits>

namespace snug::core {

struct Fault {
  const std::byte* address = nullptr;
  bool write = false;  // valid where the processor tells
};

// Handles the signals of faults for as long as it lives. A program may only have one at a time.
class FaultCatcher {
 public:
  FaultCatcher();
  ~FaultCatcher();
  FaultCatcher(const FaultCatcher&) = delete;
  FaultCatcher& operator=(const FaultCatcher&) = delete;

  // Calls body() and returns the fault that ended it, if there was one.
  template <class Body>
  std::optional<Fault> Call(Body&& body) {
    using Plain = std::remove_reference_t<Body>;
    return Call([](void* b) { (*static_cast<Plain*>(b))(); },
                const_cast<void*>(static_cast<const void*>(std::addressof(body))));
  }

 private:
  static std::optional<Fault> Call(void (*body)(void*), void* argument);

  struct sigaction old_segv_, old_bus_;
};

}  // namespace snug::core
