// Placements whose search makes thousands of choices one within another need no more of the thread's stack than others.
#include <gtest/gtest.h>
#include <pthread.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "memory/place/instance.h"
#include "memory/place/list_placer.h"
#include "memory/place/search.h"
#include "memory/problem.h"

namespace snug::core::memory {
namespace {

constexpr size_t kSmallStack = size_t{256} << 10;  // a frame of a sanitized build takes about a KiB

void OnSmallStack(const std::function<void()>& work) {
  pthread_attr_t attributes;
  ASSERT_EQ(pthread_attr_init(&attributes), 0);
  ASSERT_EQ(pthread_attr_setstacksize(&attributes, kSmallStack), 0);
  const auto run = [](void* argument) -> void* {
    (*static_cast<const std::function<void()>*>(argument))();
    return nullptr;
  };
  pthread_t thread{};
  ASSERT_EQ(pthread_create(&thread, &attributes, run, const_cast<std::function<void()>*>(&work)), 0);
  ASSERT_EQ(pthread_join(thread, nullptr), 0);
  pthread_attr_destroy(&attributes);
}

// A chain of buffers, each alive with the one before it and the one after it, so that it never falls apart into more
// than a buffer and the rest.
Problem Chain(int32_t length) {
  Problem problem;
  for (int32_t i = 0; i < length; ++i) {
    Buffer buffer;
    buffer.first = i;
    buffer.last = i + 1;
    buffer.size_bytes = 64;
    problem.buffers.push_back(buffer);
  }
  return problem;
}

TEST(DeepPlacement, AChainOfThousandsFitsIntoASmallStack) {
  const Problem problem = Chain(4000);
  std::vector<int64_t> settled;
  const std::vector<Instance> instances = Decompose(problem, &settled);
  ASSERT_EQ(instances.size(), 1U);
  const Instance& chain = instances.front();
  const Conflicts conflicts = ConflictsOf(chain);
  PlacementSearch search(chain, conflicts);
  Verdict verdict = Verdict::kUndecided;
  OnSmallStack([&] { verdict = search.Run(chain.bound, {}, int64_t{1} << 40, [] { return false; }); });
  EXPECT_EQ(verdict, Verdict::kFits);
  std::vector<int64_t> taken(static_cast<size_t>(chain.sections), -1);
  for (size_t i = 0; i < chain.size(); ++i) {
    const int64_t offset = search.offsets()[i];
    ASSERT_TRUE(offset == 0 || offset == 64) << offset;
    for (int32_t s = chain.items[i].first; s <= chain.items[i].last; ++s) {
      EXPECT_NE(taken[static_cast<size_t>(s)], offset) << "section " << s;
      taken[static_cast<size_t>(s)] = offset;
    }
  }
}

}  // namespace
}  // namespace snug::core::memory
