// A model of how a step goes faster with more threads, from its profile on one thread and on two: by Amdahl's law the
// time of an op is a serial part, and a parallel part divided by the number of threads. It knows nothing of what begins
// only with many threads (few pieces to hand out, several sockets), so it says at most how fast a step gets.
//
// Memory is a second bound where it is seen here: if a copy on all threads is less than three quarters of as many times
// as fast as on one, then no op moves its bytes faster than that copy does.
#pragma once

#include <absl/types/span.h>

#include <string>
#include <vector>

#include "engine/base/text/json.h"

namespace snug::core {

// Seconds, or bytes in a second, on one thread, on two, and on all of them.
struct ByThreads {
  double one = 0, two = 0, all = 0;
};

struct NodeTimes {
  std::string op;
  double bytes = 0;  // that must be read and written
  ByThreads seconds;
};

class Scaling {
 public:
  // What keeps an op from being faster on many threads. kThreads: nothing, it still gains by more of them.
  enum class Limit : uint8_t { kThreads, kSerial, kMemory };

  struct Part {
    std::string op;  // kBetween: what a step does beside its ops
    int64_t nodes = 0;
    ByThreads seconds;
    double serial = 0, parallel = 0;  // seconds
    double in_memory = 0;             // seconds that moving the bytes takes; 0: memory is no bound

    double Seconds(int threads) const;
    Limit LimitOn(int threads) const;
  };
  static constexpr const char* kBetween = "(between ops)";

  // `threads`: what "all" means, at least 2. `step`: of whole steps. `copy`: bytes in a second, from memory.
  Scaling(absl::Span<const NodeTimes> nodes, ByThreads step, int threads, ByThreads copy);

  const std::vector<Part>& parts() const { return parts_; }  // the slowest on many threads first
  bool bound_by_memory() const;
  double Seconds(int threads) const;

  std::string Table() const;
  // Writes members into the object that is open.
  void WriteJson(Json& json) const;

 private:
  ByThreads step_, copy_;
  int threads_;
  std::vector<Part> parts_;
};

}  // namespace snug::core
