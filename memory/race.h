// Several attempts at one thing, on several threads, with a result that does not depend on how many.
#pragma once

#include <functional>

namespace snug::memory {

// Runs attempt(0), attempt(1), ... up to `count`; returns the smallest index whose attempt succeeded, or `count`.
// Every attempt before that one is run to its end. Those behind it are told to stop (`stop()` turns true) or are not
// begun. `attempt` may be called from several threads at once.
int Race(int threads, int count, const std::function<bool(int index, const std::function<bool()>& stop)>& attempt);

// Runs each of task(0) to task(count - 1) to its end, dealt out in turn: this thread has the first. `task` may be
// called from several threads at once.
void RunAll(int threads, int count, const std::function<void(int index)>& task);

}  // namespace snug::memory
