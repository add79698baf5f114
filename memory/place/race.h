// Several attempts at one thing, on several threads, with a winner that does not depend on how many.
#pragma once

#include <functional>

namespace snug::memory {

// Runs attempt(0), attempt(1), ... up to `count`; returns the smallest index whose attempt succeeded, or `count`.
// Every attempt before that one is run to its end. Those behind it are told to stop (`stop()` turns true) or are not
// begun. `attempt` may be called from several threads at once.
int Race(int threads, int count, const std::function<bool(int index, const std::function<bool()>& stop)>& attempt);

}  // namespace snug::memory
