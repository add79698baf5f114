// Where a finished plan has room for buffers that lie longer than they must: because no buffer that comes earlier or
// later was put there, or at another place. Offsets change, the size of the arena does not.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "memory/problem.h"

namespace snug::core {

class PlanRoom {
 public:
  // Both must outlive it, and the problem may not change.
  PlanRoom(const memory::Problem& problem, memory::Plan* plan);

  // Buffers that are not of this stream alone (kSeveral) do not move, others only among those of their own stream:
  // nobody waits for bytes who did not before. By default one stream has all.
  static constexpr int32_t kSeveral = -1;
  void SetStreams(std::vector<int32_t> stream_of_buffer) { stream_of_ = std::move(stream_of_buffer); }

  // Makes a buffer lie from `first` to `last`, and when it must, and moves it if need be. Returns whether there is
  // room; otherwise nothing has changed.
  bool Keep(size_t buffer, memory::Span wanted);

 private:
  bool IsNeeded(size_t other, memory::Span when) const;
  bool IsFree(size_t buffer, memory::Span when) const;
  bool Move(size_t moved, memory::Span when);

  const memory::Problem& problem_;
  memory::Plan& plan_;
  std::vector<memory::Span> kept_;  // by buffer: its lifetime, and as long as it was made to lie
  std::vector<char> is_kept_;       // by buffer: whether that has no gaps
  std::vector<int32_t> stream_of_;  // by buffer
};

}  // namespace snug::core
