// Turns an access to memory that may not be touched into a value, instead of the end of the program.
//
// Where the fault happens, the call is left as by longjmp: nothing of it is destroyed, so locks it held stay locked and
// memory it took is lost. That is for debugging, shortly before a run stops. Only faults of the calling thread are
// caught; another's go to whoever handled them before.
#pragma once

#include <csignal>
#include <cstddef>
#include <memory>
#include <optional>
#include <type_traits>

namespace snug {

struct Fault {
  const std::byte* address = nullptr;
  bool write = false;  // where the processor tells
};

// Handles the signals of faults as long as it lives. One at a time in a program.
class FaultCatcher {
 public:
  FaultCatcher();
  ~FaultCatcher();
  FaultCatcher(const FaultCatcher&) = delete;
  FaultCatcher& operator=(const FaultCatcher&) = delete;

  // Calls body(); the fault that ended it, if one did.
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

}  // namespace snug
