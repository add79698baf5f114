#include "engine/base/access_history.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>
#include <vector>

namespace snug::core {
namespace {

Access Read(const Region& r) { return {r, false}; }
Access Write(const Region& r) { return {r, true}; }

// Numbers everything that is added; nothing of the numbers in `finished` is waited for.
struct History {
  struct Policy {
    std::set<int>* finished;
    std::set<int>* waits;
    bool Finished(int who) { return finished->contains(who); }
    void Wait(int who) {
      if (!finished->contains(who)) waits->insert(who);
    }
  };

  std::set<int> Add(const std::vector<Access>& accesses) {
    std::set<int> waits;
    for (const Access& access : accesses) history.Add(access, next, Policy{&finished, &waits});
    ++next;
    return waits;
  }

  AccessHistory<int> history;
  std::set<int> finished;
  int next = 0;
};

TEST(Conflict, IsOneWriteToSharedBytes) {
  const Region a{0, 0, 10};
  EXPECT_FALSE(Conflicts(Read(a), Read(a)));
  EXPECT_TRUE(Conflicts(Read(a), Write(a)));
  EXPECT_TRUE(Conflicts(Write(a), Read({0, 9, 12})));
  EXPECT_TRUE(Conflicts(Write(a), Write({0, 3, 4})));
  EXPECT_FALSE(Conflicts(Write(a), Write({0, 10, 12})));  // half open
  EXPECT_FALSE(Conflicts(Write(a), Write({1, 0, 10})));   // another arena
  EXPECT_FALSE(Conflicts(Write(a), Write({0, 5, 5})));    // empty
}

TEST(Conflict, TagsAreRegionsOfTheirOwn) {
  const Tag a{3, 0}, b{4, 0}, later{3, 1};
  EXPECT_TRUE(Conflicts(Write(a), Read(a)));
  EXPECT_FALSE(Conflicts(Write(a), Write(b)));
  EXPECT_FALSE(Conflicts(Write(a), Write(later)));
  EXPECT_EQ(TagOf(a), a);
  EXPECT_EQ(TagOf(later), later);
}

TEST(AccessHistory, ReadersWaitForTheWriterAndWritersForThem) {
  for (const Region& x : {Region(Tag{0, 0}), Region{0, 16, 32}}) {
    History h;
    EXPECT_EQ(h.Add({Read(x)}), std::set<int>{});
    EXPECT_EQ(h.Add({Write(x)}), std::set<int>{0});
    EXPECT_EQ(h.Add({Read(x)}), std::set<int>{1});
    EXPECT_EQ(h.Add({Read(x)}), std::set<int>{1});
    EXPECT_EQ(h.Add({Write(x)}), (std::set<int>{2, 3}));
    EXPECT_EQ(h.Add({Write(x)}), std::set<int>{4});
  }
}

TEST(AccessHistory, NamingBytesTwiceIsHarmless) {
  for (const Region& x : {Region(Tag{0, 0}), Region{0, 16, 32}}) {
    History h;
    EXPECT_EQ(h.Add({Write(x), Write(x)}), std::set<int>{});
    EXPECT_EQ(h.Add({Read(x), Read(x), Write(x)}), std::set<int>{0});
    EXPECT_EQ(h.Add({Write(x), Read(x)}), std::set<int>{1});
    EXPECT_EQ(h.Add({Read(x)}), std::set<int>{2});
    EXPECT_EQ(h.Add({Write(x)}), (std::set<int>{2, 3}));
  }
}

TEST(AccessHistory, PartialOverlapsConflict) {
  History h;
  h.Add({Write({0, 0, 10})});
  h.Add({Write({0, 20, 30})});
  EXPECT_EQ(h.Add({Read({0, 5, 25})}), (std::set<int>{0, 1}));
  EXPECT_EQ(h.Add({Write({0, 0, 5})}), std::set<int>{0});
  EXPECT_EQ(h.Add({Write({0, 4, 6})}), (std::set<int>{2, 3}));
  EXPECT_EQ(h.Add({Write({0, 12, 14})}), std::set<int>{2});  // never written, but read
  EXPECT_EQ(h.Add({Write({0, 30, 40})}), std::set<int>{});
}

TEST(AccessHistory, FinishedAccessesLeaveNoTrace) {
  History h;
  const Region x = Tag{0, 0};
  for (int i = 0; i < 10000; ++i) {
    h.finished.insert(h.next - 1);
    h.Add({Read(x), Read({0, i, i + 1})});
  }
  EXPECT_LE(h.history.pieces(), 200U);
  h.finished.insert(h.next - 1);
  EXPECT_EQ(h.Add({Write(x), Write({0, 0, 10000})}), std::set<int>{});
}

// Against the rule itself: the waits and what follows from them order exactly the pairs that conflict, and every wait
// is between two that do.
TEST(AccessHistory, RandomSequencesFollowTheRule) {
  for (unsigned seed = 0; seed < 200; ++seed) {
    std::mt19937 random(seed);
    const auto pick = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
    constexpr int count = 60;
    History h;
    std::vector<std::vector<Access>> all;
    std::vector<std::vector<bool>> before(count, std::vector<bool>(count));
    for (int i = 0; i < count; ++i) {
      std::vector<Access> accesses;
      for (int k = pick(4); k >= 0; --k) {
        const int64_t begin = pick(40);
        const Region region = pick(3) == 0 ? Region(Tag{pick(5), 0}) : Region{pick(2), begin, begin + pick(15)};
        accesses.push_back({region, pick(2) == 0});
      }
      all.push_back(accesses);
      const auto conflict = [&](int j) {
        return std::any_of(all[j].begin(), all[j].end(), [&](const Access& a) {
          return std::any_of(accesses.begin(), accesses.end(), [&](const Access& b) { return Conflicts(a, b); });
        });
      };
      for (const int j : h.Add(accesses)) {
        ASSERT_TRUE(conflict(j)) << "seed " << seed << ": " << i << " waits for " << j;
        before[i][j] = true;
        for (int k = 0; k < j; ++k) before[i][k] = before[i][k] || before[j][k];
      }
      for (int j = 0; j < i; ++j) {
        ASSERT_TRUE(before[i][j] || !conflict(j)) << "seed " << seed << ": " << i << " does not wait for " << j;
      }
    }
  }
}

}  // namespace
}  // namespace snug::core
