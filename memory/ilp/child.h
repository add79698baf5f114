// Runs a computation that looks at no clock in a process of its own: a process can be ended at any moment, and takes
// all that it holds with it, so that the caller never sees a half-changed state.
#pragma once

#include <absl/status/statusor.h>
#include <absl/strings/string_view.h>

#include <functional>
#include <string>

namespace snug::core::memory {

enum class ChildEnd {
  kReturned,  // `body` returned
  kStopped,   // the time was up
  kDied,      // a signal or an exit of its own ended it
};

using SendFn = std::function<void(absl::string_view message)>;

// Runs `body` in a fork of this process, until it returns or `seconds` have passed. Each message that it sends goes to
// `receive`, in sequence, on the calling thread; a message that is cut off by the end is dropped whole. What `body`
// changes in memory stays in the fork. The fork has one thread, whatever the caller has, and ends when the calling
// thread does. Fails where the system has no room for a process.
absl::StatusOr<ChildEnd> RunInChild(double seconds, const std::function<void(const SendFn& send)>& body,
                                    const std::function<void(absl::string_view message)>& receive);

}  // namespace snug::core::memory
