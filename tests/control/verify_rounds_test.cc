// What is wrong with the places of a rolled loop is found before it runs. Faults are put into loops that are right.
#include <absl/strings/str_cat.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "engine/compile/control/rolled_loop.h"
#include "tests/control/control_run.h"

namespace snug::core {

// Changes a loop that nobody runs.
class RolledLoopFaults {
 public:
  explicit RolledLoopFaults(const RolledLoop& loop) : loop_(const_cast<RolledLoop&>(loop)) {}

  // The first value of the rounds with so many places.
  std::vector<int64_t>& RingOf(size_t places) {
    for (auto& made : loop_.made_) {
      if (made.ring.size() == places) return made.ring;
    }
    ADD_FAILURE() << "no value has " << places << " places";
    return loop_.made_[0].ring;
  }
  std::vector<int64_t>& Ring(size_t made) { return loop_.made_[made].ring; }
  size_t made() const { return loop_.made_.size(); }
  int64_t& ScratchOf(size_t input) { return loop_.inputs_[input].scratch; }
  int64_t& workspace() { return loop_.workspace_bytes_; }
  int64_t table() const { return loop_.table_; }
  int ResultOfCollect() const { return loop_.collects_[0].result; }
  void CollectLike(size_t made, size_t other) { loop_.made_[made].collect = loop_.made_[other].collect; }
  bool IsCollected(size_t made) const { return loop_.made_[made].collect >= 0; }
  void SwapSteps(size_t a, size_t b) {
    auto& steps = const_cast<Compiled&>(*loop_.body_).executable.steps;
    std::swap(steps[a], steps[b]);
  }
  // Has a Step read an input of the body where it read its own.
  void Reread(size_t step, size_t slot, int32_t buffer) {
    auto& steps = const_cast<Compiled&>(*loop_.body_).executable.steps;
    steps[step].inputs[slot] = {.arena = Arena::kCaller, .offset = 0, .block = buffer};
  }
  int32_t BufferOf(size_t input) const { return loop_.inputs_[input].buffer; }

 private:
  RolledLoop& loop_;
};

namespace test {
namespace {

using testing::HasSubstr;

// What is said of the loop of a network, once `fault` has changed it.
std::string SaidOf(const std::string& text, const std::function<void(RolledLoopFaults&)>& fault) {
  const absl::StatusOr<LoadedNetwork> loaded = LoadNetworkText(text, "test");
  EXPECT_TRUE(loaded.ok()) << loaded.status().message();
  // By plain kernels, as the workspace of others depends on the processor.
  const absl::StatusOr<Compiled> compiled =
      Compile(loaded->network, loaded->source_map, OpRegistry::Builtin(),
              {.training = false, .plain_kernels = true, .loops = LoopRule::kRolled});
  EXPECT_TRUE(compiled.ok()) << compiled.status().message();
  if (!compiled.ok()) return "";
  for (const NodeId id : compiled->graph.ProgramOrder()) {
    const RolledLoop* const rolled = RolledLoopOf(compiled->kernels[static_cast<size_t>(id.index)]);
    if (rolled == nullptr) continue;
    EXPECT_EQ(rolled->Verify(), absl::OkStatus());
    RolledLoopFaults faults(*rolled);
    fault(faults);
    return std::string(rolled->Verify().message());
  }
  ADD_FAILURE() << "no loop is rolled";
  return "";
}

// Of the loop "l" of a network with that body.
std::string Said(const std::string& body, const std::string& loop, const std::function<void(RolledLoopFaults&)>& fault,
                 int rounds = 7) {
  const std::string text =
      absl::StrCat("block { name: \"body\" ", body, " }\nbatch: 2\n",
                   "input { name: \"a\" shape { dim: [4, 4] } }\ninput { name: \"s\" shape { dim: [", rounds,
                   ", 4, 4] } }\nlayer { name: \"l\" input: \"a\" ", loop, " } }\noutput: \"l\"");
  return SaidOf(text, fault);
}

std::string Times(int rounds) { return absl::StrCat("loop { body: \"body\" times: ", rounds, " "); }

constexpr char kSquare[] = R"(input: "x" layer { name: "y" input: "$x" input: "$x" matmul {} } output: "y")";
constexpr char kCarry[] = R"(carry { input: "x" output: "y" })";
// What x0 is was made three rounds ago.
constexpr char kThree[] = R"(input: "x0" input: "x1" input: "x2"
    layer { name: "y" input: "$x2" input: "$x0" matmul {} } output: "y" output: "$x1" output: "$x2")";
const std::string kThreeCarries = R"(carry { input: "x2" output: "y" } carry { input: "x0" output: "x1" }
    carry { input: "x1" output: "x2" })";

TEST(VerifyRounds, ARingThatIsOneTooShort) {
  EXPECT_THAT(Said(kSquare, Times(7) + kCarry, [](RolledLoopFaults& loop) { loop.RingOf(2).pop_back(); }),
              HasSubstr(R"(over its "round 0, y" at)"));
  const std::string three = absl::StrCat("input: \"a\" input: \"a\" ", Times(7), kThreeCarries);
  EXPECT_THAT(Said(kThree, three, [](RolledLoopFaults& loop) { loop.RingOf(4).pop_back(); }),
              HasSubstr(R"(writes "round 3, y" at)"));
  EXPECT_THAT(Said(kThree, three, [](RolledLoopFaults& loop) { loop.RingOf(4).resize(2); }),
              HasSubstr(R"(layer "round 3, y" (matmul): expected "round 0, y" at)"));
}

// Many rounds are found as few are, without going through them.
TEST(VerifyRounds, AFaultOfTheLastOfManyRounds) {
  constexpr int kRounds = 1'000'000'001;
  // The last round is to leave the carry in the loop's output, and the one before does.
  EXPECT_THAT(Said(kSquare, Times(kRounds) + kCarry,
                   [](RolledLoopFaults& loop) { loop.RingOf(2).assign(2, loop.RingOf(2)[1]); }),
              HasSubstr(R"(over its "round 0, y" at)"));
  constexpr char kTwo[] = R"(input: "x" input: "z" layer { name: "y" input: "$x" input: "$x" matmul {} }
      layer { name: "w" input: "$z" input: "$z" matmul {} } output: "y" output: "w")";
  const std::string two = absl::StrCat("input: \"a\" ", Times(kRounds), kCarry, R"(carry { input: "z" output: "w" })");
  // Each carry ends in the other's output.
  EXPECT_THAT(Said(kTwo, two,
                   [](RolledLoopFaults& loop) {
                     for (size_t i = 0; i < 2; ++i) {
                       if (loop.Ring(0)[i] < 0) std::swap(loop.Ring(0)[i], loop.Ring(1)[i]);
                     }
                   }),
              HasSubstr(R"(but "end, carry 0" lies there)"));
}

// These rings of 3, 5, 7, 11, 13, 17, 19 and 23 places would turn once in 111 million rounds, and with one line more in
// more than anybody can wait for.
TEST(VerifyRounds, DelayLinesOfManyLengths) {
  constexpr int kRounds = 1'000'000'000;
  constexpr char kLayer[] = R"(name: "y" input: "x" input: "x" matmul {})";
  const std::string lines = DelayLines({2, 4, 6, 10, 12, 16, 18, 22, 28, 30, 36, 40}, kRounds, kLayer);
  EXPECT_EQ(SaidOf(lines,
                   [](RolledLoopFaults& loop) {
                     std::vector<size_t> places;
                     for (size_t made = 0; made < loop.made(); ++made) places.push_back(loop.Ring(made).size());
                     EXPECT_THAT(places, testing::ElementsAre(4, 8, 8, 16, 16, 32, 32, 32, 32, 32, 64, 64));
                   }),
            "");
  EXPECT_THAT(SaidOf(lines, [](RolledLoopFaults& loop) { loop.Ring(0).resize(2); }),
              HasSubstr(R"(over its "round 0, y0" at)"));
  EXPECT_THAT(SaidOf(lines, [](RolledLoopFaults& loop) { loop.Ring(11).resize(32); }),
              HasSubstr(R"(layer "round 40, y11" (matmul): expected "round 0, y11")"));
  // Two places of one ring, which meet once in 64 rounds.
  EXPECT_THAT(SaidOf(lines, [](RolledLoopFaults& loop) { loop.Ring(10)[63] = loop.Ring(10)[40]; }),
              HasSubstr(R"(layer "round 76, y10" (matmul): expected "round 40, y10")"));
  // The last rounds leave carries in each other's outputs.
  EXPECT_THAT(SaidOf(lines,
                     [](RolledLoopFaults& loop) {
                       std::vector<int64_t*> outputs;
                       for (const size_t made : {10u, 11u}) {
                         for (int64_t& place : loop.Ring(made)) {
                           if (place < 0) outputs.push_back(&place);
                           if (place < 0) break;
                         }
                       }
                       ASSERT_EQ(outputs.size(), 2u);
                       std::swap(*outputs[0], *outputs[1]);
                     }),
              HasSubstr(R"(layer "end, carry )"));
}

// A turn of one ring is never too long, nor is one that has no end before the loop.
TEST(VerifyRounds, LengthsThatStay) {
  constexpr char kLayer[] = R"(name: "y" input: "x" input: "x" matmul {})";
  const auto places_of = [&](const std::vector<int>& lengths, int rounds) {
    std::vector<size_t> places;
    EXPECT_EQ(SaidOf(DelayLines(lengths, rounds, kLayer),
                     [&](RolledLoopFaults& loop) {
                       for (size_t made = 0; made < loop.made(); ++made) places.push_back(loop.Ring(made).size());
                     }),
              "");
    return places;
  };
  EXPECT_THAT(places_of({6, 10, 12, 16}, 4096), testing::ElementsAre(7, 11, 13, 17));
  EXPECT_THAT(places_of({6, 10, 12, 16}, 4097), testing::ElementsAre(8, 16, 16, 32));
  EXPECT_THAT(places_of({6, 10, 12}, 1'000'000'000), testing::ElementsAre(7, 11, 13));  // 1001 rounds
}

TEST(VerifyRounds, AWrongPlace) {
  const std::string loop = Times(7) + kCarry;
  const auto in_workspace = [](RolledLoopFaults& loop) -> int64_t& {
    std::vector<int64_t>& ring = loop.RingOf(2);
    return ring[0] >= 0 ? ring[0] : ring[1];
  };
  EXPECT_THAT(Said(kSquare, loop, [&](RolledLoopFaults& l) { in_workspace(l) = l.table(); }),
              HasSubstr("expected a multiple of 64 inside its 192 bytes"));
  EXPECT_THAT(Said(kSquare, loop, [&](RolledLoopFaults& l) { in_workspace(l) += 64; }),
              HasSubstr("the table of pointers"));
  EXPECT_THAT(Said(kSquare, loop, [&](RolledLoopFaults& l) { in_workspace(l) = l.workspace() - 64; }),
              HasSubstr("expected a multiple of 64 inside its 192 bytes"));
  EXPECT_THAT(Said(kSquare, loop, [](RolledLoopFaults& l) { l.workspace() -= 64; }),
              HasSubstr(R"(the table of pointers" lies at bytes 128 to 192 of the step arena: expected)"));
  EXPECT_THAT(Said(kSquare, loop, [&](RolledLoopFaults& l) { in_workspace(l) = -9; }),
              HasSubstr("lies in output 8, which is no carry"));
  // Two values in one place.
  constexpr char kTwo[] = R"(input: "x" input: "z" layer { name: "y" input: "$x" input: "$x" matmul {} }
      layer { name: "w" input: "$z" input: "$z" matmul {} } output: "y" output: "w")";
  const std::string two = absl::StrCat("input: \"a\" ", Times(7), kCarry, R"(carry { input: "z" output: "w" })");
  EXPECT_THAT(
      Said(kTwo, two, [](RolledLoopFaults& l) { l.Ring(0) = l.Ring(1); }),
      HasSubstr(R"(expected "round 0, y" at bytes 0 to 128 of the caller's buffer "output 1", but "round 0, w" lies)"));
}

TEST(VerifyRounds, WhatIsCollected) {
  constexpr char kTwo[] = R"(input: "x" layer { name: "y" input: "$x" input: "$x" matmul {} }
      layer { name: "w" input: "$x" input: "y" matmul {} } output: "y" output: "w")";
  const std::string loop =
      absl::StrCat(Times(7), kCarry, R"(collect { output: "y" axis: 0 } collect { output: "w" axis: 0 })");
  EXPECT_THAT(Said(kTwo, loop,
                   [](RolledLoopFaults& l) {
                     ASSERT_TRUE(l.IsCollected(0) && l.IsCollected(1));
                     l.CollectLike(1, 0);
                   }),
              HasSubstr(R"(over its "round 0, y" at bytes 0 to 128 of the caller's buffer "output 1")"));
}

// The number of the round, and slices that are copied, lie in the workspace.
TEST(VerifyRounds, WhatIsReadIsApart) {
  constexpr char kAdd[] = R"(input: "x" input: "s" layer { name: "y" input: "$x" input: "$s" add {} } output: "y")";
  const std::string loop = absl::StrCat("input: \"s\" loop { body: \"body\" scan { input: \"s\" } ", kCarry);
  EXPECT_THAT(Said(kAdd, loop, [](RolledLoopFaults& l) { l.ScratchOf(1) = l.table(); }),
              HasSubstr("the table of pointers"));
}

// Where a slice that is carried on is read into, it must stay for as many rounds as it is read in.
TEST(VerifyRounds, ASliceThatIsCarried) {
  constexpr char kBefore[] = R"(input: "before" input: "s" layer { name: "y" input: "$before" input: "$s" sub {} }
      output: "y" output: "$s")";
  const std::string loop = R"(input: "s" loop { body: "body" scan { input: "s" } carry { input: "before" output: "s" }
      collect { output: "y" })";
  EXPECT_THAT(Said(kBefore, loop, [](RolledLoopFaults& l) { l.RingOf(2).pop_back(); }),
              HasSubstr(R"(layer "round 1, y" (sub): expected "round 0, s" at)"));
  EXPECT_THAT(Said(kBefore, loop, [](RolledLoopFaults& l) { l.RingOf(2)[0] = l.table(); }),
              HasSubstr("the table of pointers"));
}

TEST(VerifyRounds, ACarryThatIsOverwrittenEarly) {
  // The first of two Steps has read x before the second writes y in its place.
  constexpr char kTwoSteps[] = R"(input: "x" layer { name: "p" input: "$x" input: "$x" matmul {} }
      layer { name: "y" input: "p" softmax {} } output: "y")";
  EXPECT_THAT(Said(kTwoSteps, Times(7) + kCarry, [](RolledLoopFaults& l) { l.SwapSteps(0, 1); }),
              HasSubstr(R"(layer "round 0, y" (softmax): expected "round 0, p" at)"));
  // In place, as its op allows, but what it reads there is gone.
  constexpr char kThreeSteps[] = R"(input: "x" input: "z" layer { name: "p" input: "$x" input: "$x" matmul {} }
      layer { name: "y" input: "p" softmax {} } layer { name: "w" input: "$z" input: "y" add {} }
      output: "y" output: "w")";
  const std::string two = absl::StrCat("input: \"a\" ", Times(7), kCarry, R"(carry { input: "z" output: "w" })");
  EXPECT_THAT(Said(kThreeSteps, two, [](RolledLoopFaults& l) { l.Reread(2, 0, l.BufferOf(0)); }),
              HasSubstr(R"(expected "input 2: z at first" at)"));
}

}  // namespace
}  // namespace test
}  // namespace snug::core
