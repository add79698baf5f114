// Does the same work for several nodes in one launch (KernelRow::together): each block of threads works for one of
// them. It is for .cu files, which nvcc compiles, and g++ does for the tests.
//
//   template <class T, class All>
//   __global__ void AddKernel(const __grid_constant__ All all) {
//     const int i = all.At(blockIdx.x);
//     const Add& add = all.members[i];
//     SNUG_TOGETHER_FOR(j, all, i, add.n) { ... }
//   }
#pragma once

#include <absl/types/span.h>

#include <algorithm>
#include <cstdint>

#include "engine/base/host_device.h"
#include "ops/kernel_context.h"
#include "ops/kit/cuda/kernel.h"
#include "ops/op_def.h"

namespace snug::core {

// What such a kernel gets: a Member for each node, which has the number `n` of elements that its blocks go over.
template <class Member, int kCount>
struct Together {
  int32_t count = 0;
  int32_t first_block[kCount + 1] = {};
  Member members[kCount];

  void Add(const Member& member) {
    members[count] = member;
    first_block[count + 1] = first_block[count] + static_cast<int32_t>(ShapeFor(member.n).blocks);
    ++count;
  }
  // Returns the member that a block works for.
  SNUG_HOST_DEVICE int At(unsigned block) const {
    int low = 0;
    int high = count - 1;
    while (low < high) {
      const int middle = (low + high + 1) / 2;
      if (first_block[middle] <= static_cast<int32_t>(block)) {
        low = middle;
      } else {
        high = middle - 1;
      }
    }
    return low;
  }
};

// A loop that all threads of a member's blocks do together.
#define SNUG_TOGETHER_FOR(j, all, i, n)                                                                             \
  for (int64_t j = (static_cast<int64_t>(blockIdx.x) - (all).first_block[i]) * blockDim.x + threadIdx.x; (j) < (n); \
       j += static_cast<int64_t>((all).first_block[(i) + 1] - (all).first_block[i]) * blockDim.x)

// Calls launch(all, shape) with what member_of(node) says of each node. A single node is passed without room for more.
template <class MemberOf, class Launch>
absl::Status LaunchTogether(absl::Span<const KernelContext> nodes, const MemberOf& member_of, const Launch& launch) {
  using Member = decltype(member_of(nodes[0]));
  const auto of_all = [&](auto all) {
    static_assert(sizeof(all) <= 4096, "CUDA takes no more arguments");
    for (const KernelContext& node : nodes) all.Add(member_of(node));
    return launch(all, cuda::LaunchShape{.blocks = all.first_block[all.count], .threads = kCudaThreads});
  };
  return nodes.size() == 1 ? of_all(Together<Member, 1>()) : of_all(Together<Member, kMostTogether>());
}

// KernelRow::run for a row that has `together`.
template <absl::Status (*together)(absl::Span<const KernelContext>)>
absl::Status Alone(const KernelContext& k) {
  return together({&k, 1});
}

}  // namespace snug::core
