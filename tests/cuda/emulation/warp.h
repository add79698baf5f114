// What threads of a warp do together, on the processor: shuffles, votes, __syncwarp, matrix instructions. The threads
// that a mask names meet; the last that comes finishes the operation for all of them.
//
// A thread that is not in its own mask, a mask that names a thread that will not come, and a shuffle from a lane that
// is not in the mask end the program, as the results on a device would be undefined. Shared memory behaves as if each
// thread ran on as far as it can, so what relies on threads of a warp keeping step, without __syncwarp, shows.
// `threadIdx` is declared before this is included.
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>

namespace snug::core::cuda::emulation {

inline constexpr int kWarpLanes = 32;

// One thread's part of an operation. `in` and `out` are the thread's own; both live until it goes on.
struct WarpCall {
  const char* name;
  unsigned mask;
  const void* in;
  void* out;
  void (*finish)(const WarpCall* const* lanes);  // computes all results; lanes that are not in the mask are null
};

// Makes a thread wait until all of call.mask have come to an operation with the same mask and `finish`.
void MeetWarp(const WarpCall& call);

inline int OwnLane() { return static_cast<int>(threadIdx.x % kWarpLanes); }

[[noreturn]] inline void FailInWarp(const char* name, const char* what) {
  std::fprintf(stderr, "%s: %s\n", name, what);
  std::abort();
}

template <class T>
struct Shuffled {
  T value;
  int from;  // the lane whose value this thread gets
};

template <class T>
T Shuffle(const char* name, unsigned mask, T value, int from) {
  const Shuffled<T> in = {value, from};
  T out;
  MeetWarp({name, mask, &in, &out, [](const WarpCall* const* lanes) {
              for (int lane = 0; lane < kWarpLanes; ++lane) {
                if (lanes[lane] == nullptr) continue;
                const WarpCall* const from = lanes[static_cast<const Shuffled<T>*>(lanes[lane]->in)->from];
                if (from == nullptr) FailInWarp(lanes[lane]->name, "reads a lane that is not in the mask");
                *static_cast<T*>(lanes[lane]->out) = static_cast<const Shuffled<T>*>(from->in)->value;
              }
            }});
  return out;
}

inline unsigned Ballot(const char* name, unsigned mask, bool vote) {
  unsigned out = 0;
  MeetWarp({name, mask, &vote, &out, [](const WarpCall* const* lanes) {
              unsigned votes = 0;
              for (int lane = 0; lane < kWarpLanes; ++lane) {
                if (lanes[lane] != nullptr && *static_cast<const bool*>(lanes[lane]->in)) votes |= 1U << lane;
              }
              for (int lane = 0; lane < kWarpLanes; ++lane) {
                if (lanes[lane] != nullptr) *static_cast<unsigned*>(lanes[lane]->out) = votes;
              }
            }});
  return out;
}

}  // namespace snug::core::cuda::emulation

// NOLINTBEGIN(bugprone-reserved-identifier, readability-identifier-naming): CUDA's names. As CUDA has it, lanes are
// shuffled within sections of `width` lanes, a power of two. Who asks for a lane beyond its section gets its own value
// (of __shfl_sync, that of the lane modulo the width).
template <class T>
T __shfl_sync(unsigned mask, T value, int lane, int width = 32) {
  const int section = snug::core::cuda::emulation::OwnLane() & ~(width - 1);
  return snug::core::cuda::emulation::Shuffle("__shfl_sync", mask, value, section + (lane & (width - 1)));
}
template <class T>
T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = 32) {
  const int own = snug::core::cuda::emulation::OwnLane();
  const int from = own + static_cast<int>(delta);
  return snug::core::cuda::emulation::Shuffle("__shfl_down_sync", mask, value, from > (own | (width - 1)) ? own : from);
}
template <class T>
T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = 32) {
  const int own = snug::core::cuda::emulation::OwnLane();
  const int from = own - static_cast<int>(delta);
  return snug::core::cuda::emulation::Shuffle("__shfl_up_sync", mask, value, from < (own & ~(width - 1)) ? own : from);
}
template <class T>
T __shfl_xor_sync(unsigned mask, T value, int lanes, int width = 32) {
  const int own = snug::core::cuda::emulation::OwnLane();
  const int from = own ^ lanes;
  return snug::core::cuda::emulation::Shuffle("__shfl_xor_sync", mask, value, from > (own | (width - 1)) ? own : from);
}
inline unsigned __ballot_sync(unsigned mask, bool vote) {
  return snug::core::cuda::emulation::Ballot("__ballot_sync", mask, vote);
}
inline bool __any_sync(unsigned mask, bool vote) {
  return snug::core::cuda::emulation::Ballot("__any_sync", mask, vote) != 0;
}
inline bool __all_sync(unsigned mask, bool vote) {
  return snug::core::cuda::emulation::Ballot("__all_sync", mask, !vote) == 0;
}
inline void __syncwarp(unsigned mask = 0xffffffffU) { snug::core::cuda::emulation::Ballot("__syncwarp", mask, false); }
// NOLINTEND(bugprone-reserved-identifier, readability-identifier-naming)
