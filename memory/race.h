// Runs several attempts on several threads, with a result that does not depend on how many threads there are.
#pragma once

#include <functional>

namespace snug::core::memory {

// Runs attempt(0), attempt(1), ... up to `count`; returns the smallest index whose attempt succeeded, or `count`. Every
// attempt before that one runs to its end. Later ones are told to stop (`stop()` turns true) or never begin. `attempt`
// may be called from several threads at once.
int Race(int threads, int count, const std::function<bool(int index, const std::function<bool()>& stop)>& attempt);

// Runs each of task(0) to task(count - 1) to its end, dealt out in turn, the first one to this thread. `task` may be
// called from several threads at once.
void RunAll(int threads, int count, const std::function<void(int index)>& task);

}  // namespace snug::core::memory
