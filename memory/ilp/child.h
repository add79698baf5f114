// A computation in a process of its own, for those that look at no clock: a process can be ended at any moment, with
// all that it has taken, and nothing is left in a state that the caller would have to know of.
#pragma once

#include <absl/status/statusor.h>
#include <absl/strings/string_view.h>

#include <functional>
#include <string>

namespace snug::memory {

enum class ChildEnd {
  kReturned,  // `body` has returned
  kStopped,   // time was up
  kDied,      // by a signal or an exit of its own
};

using SendFn = std::function<void(absl::string_view message)>;

// Runs `body` in a fork of this process and hands each message that it sends to `receive`, in sequence, on the calling
// thread, until it returns or `seconds` have passed. What was sent before that is received whole or not at all, and
// what `body` changes in memory is seen by itself alone. The fork has one thread, whatever the caller has; it is ended
// when the calling thread is. Fails where the system has no room for a process.
absl::StatusOr<ChildEnd> RunInChild(double seconds, const std::function<void(const SendFn& send)>& body,
                                    const std::function<void(absl::string_view message)>& receive);

}  // namespace snug::memory
