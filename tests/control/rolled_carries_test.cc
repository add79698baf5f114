// What rounds of a loop that stays a node hand on to the next ones: carries lie in as few buffers as they need, and
// nothing is moved but slices that are not one range of bytes.
#include <absl/strings/str_cat.h>
#include <absl/strings/substitute.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "engine/compile/control/rolled_loop.h"
#include "tests/control/control_run.h"
#include "tests/control/rolled_run.h"

namespace snug::core::test {
namespace {

using testing::ElementsAre;

TEST(RolledLoops, NothingIsMovedBetweenRounds) {
  CompileOptions options{.loops = LoopRule::kRolled};
  auto session = MakeSession(Lstm(4, 12, 16, /*time_first=*/true), options);
  ASSERT_TRUE(session.ok()) << session.status().message();
  ASSERT_TRUE((*session)->Run().ok());
  const auto loops = Rolled((*session)->compiled());
  ASSERT_EQ(loops.size(), 2);
  for (const auto& [name, loop] : loops) {
    SCOPED_TRACE(name);
    EXPECT_EQ(loop->counts().rounds, 12);
    EXPECT_EQ(loop->counts().sliced_bytes, 0);  // sequences lie with their steps first
    // What h and c are at last is taken from where h was collected, and c stashed.
    EXPECT_EQ(loop->counts().last_bytes, name == "lstm" ? 2 * 4 * 16 * 4 : 0);
  }
  // Batch first, a step's slice is 4 rows of 16 numbers that are written once. The products of what is read are made
  // before the loop, with the steps first.
  session = MakeSession(Lstm(4, 12, 16, /*time_first=*/false), options);
  ASSERT_TRUE(session.ok()) << session.status().message();
  ASSERT_TRUE((*session)->Run().ok());
  const RolledLoop& forward = *Rolled((*session)->compiled()).at("lstm");
  EXPECT_EQ(forward.counts().sliced_bytes, 12 * 4 * 16 * 4);
}

// What NNC says of each: where carries lie.
TEST(RolledLoops, CarriesAlternateOrShareOneAddress) {
  const auto buffers = [](const std::string& body, const std::string& inputs, const std::string& carries) {
    const std::string text = absl::StrCat("block { name: \"body\" ", body, " }\nbatch: 2\n",
                                          "input { name: \"a\" shape { dim: [2, 4, 4] } }\n", "layer { name: \"l\" ",
                                          inputs, " loop { body: \"body\" times: 7 ", carries, " } }\noutput: \"l\"");
    CompileOptions options{.training = false, .loops = LoopRule::kRolled};
    std::vector<int> found;
    auto session = MakeSession(text, options);
    EXPECT_TRUE(session.ok()) << session.status().message();
    if (!session.ok()) return found;
    EXPECT_TRUE((*session)->Run().ok());
    const RolledLoop& loop = *Rolled((*session)->compiled()).at("l");
    EXPECT_EQ(loop.counts().sliced_bytes, 0);
    EXPECT_EQ(loop.counts().last_bytes, 0);
    found = loop.CarryBuffers();
    const Numbers rolled = *(*session)->Fetch("l");
    options.loops = LoopRule::kUnrolled;
    session = MakeSession(text, options);
    EXPECT_TRUE((*session)->Run().ok());
    const Numbers unrolled = *(*session)->Fetch("l");
    EXPECT_EQ(unrolled.size(), rolled.size());
    // Bits, as products that grow like these may end in NaN, which equals nothing.
    EXPECT_EQ(std::memcmp(unrolled.data(), rolled.data(), rolled.size() * sizeof(double)), 0);
    return found;
  };
  EXPECT_THAT(buffers(R"(input: "x" layer { name: "y" input: "$x" input: "$x" matmul {} } output: "y")", "input: \"a\"",
                      R"(carry { input: "x" output: "y" })"),
              ElementsAre(2));
  // The first of two ops has read x before the second writes y.
  EXPECT_THAT(buffers(R"(input: "x" layer { name: "p" input: "$x" input: "$x" matmul {} }
                layer { name: "y" input: "p" softmax {} })",
                      "input: \"a\"", R"(carry { input: "x" output: "y" })"),
              ElementsAre(1));
  EXPECT_THAT(buffers(R"(input: "x" layer { name: "y" input: "$x" tanh {} })", "input: \"a\"",
                      R"(carry { input: "x" output: "y" })"),
              ElementsAre(1));  // in place
  // x2 -> x1, and what is computed of x1 and x2 -> x2: what x1 is was made two rounds ago.
  constexpr char kTwo[] = R"(input: "x1" input: "x2" layer { name: "y" input: "$x2"
                input: "$x2" matmul {} } layer { name: "z" input: "y" input: "$x1" add {} } output: "z" output: "$x2")";
  EXPECT_THAT(buffers(kTwo, R"(input: "a" input: "a")",
                      R"(carry { input: "x2" output: "z" } carry { input: "x1" output: "x2" })"),
              ElementsAre(2, 0));
  constexpr char kThree[] = R"(input: "x0" input: "x1" input: "x2"
                layer { name: "y" input: "$x2" input: "$x0" matmul {} } output: "y" output: "$x1" output: "$x2")";
  EXPECT_THAT(buffers(kThree, R"(input: "a" input: "a" input: "a")",
                      R"(carry { input: "x2" output: "y" } carry { input: "x0" output: "x1" }
                carry { input: "x1" output: "x2" })"),
              ElementsAre(4, 0, 0));
}

// Runs it as its straight line and rolled. Values and gradients have the same bits; returns how many bytes the rounds
// of all its loops copied, and checks what carries of "l" alternate between.
int64_t BytesCopied(const std::string& text, const std::map<std::string, Numbers>& feeds,
                    const std::vector<std::string>& wanted, std::vector<std::string> fetched,
                    const testing::Matcher<std::vector<int>>& buffers) {
  std::vector<std::vector<Numbers>> found;
  int64_t bytes = -1;
  for (const std::string& name : wanted) fetched.push_back(absl::StrCat("d(", name, ")"));
  for (const LoopRule rule : {LoopRule::kUnrolled, LoopRule::kRolled}) {
    CompileOptions options = InDouble(wanted);
    options.loops = rule;
    const auto session = MakeUnfed(text, options);
    EXPECT_TRUE(session.ok()) << session.status().message();
    if (!session.ok()) return -1;
    for (const auto& [name, values] : feeds) EXPECT_TRUE((*session)->Feed(name, values).ok()) << name;
    EXPECT_TRUE((*session)->Run().ok());
    std::vector<Numbers>& here = found.emplace_back();
    for (const std::string& name : fetched) here.push_back(*(*session)->Fetch(name));
    const auto loops = Rolled((*session)->compiled());
    EXPECT_EQ(loops.empty(), rule == LoopRule::kUnrolled);
    if (loops.empty()) continue;
    EXPECT_THAT(loops.at("l")->CarryBuffers(), buffers);
    bytes = 0;
    for (const auto& [name, loop] : loops) bytes += loop->counts().sliced_bytes;
  }
  EXPECT_EQ(found[0], found[1]);
  return bytes;
}

Numbers Waves(size_t n, double from) {
  Numbers values(n);
  for (size_t i = 0; i < n; ++i) values[i] = std::sin(from + 1.7 * static_cast<double>(i));
  return values;
}

// Carries that only change places: pointers are handed on, forward and backward.
TEST(RolledLoops, CarriesThatChangePlaces) {
  for (const int count : {2, 3}) {
    for (const int rounds : {1, 2, 6, 7}) {
      SCOPED_TRACE(absl::StrCat(count, " carries, ", rounds, " rounds"));
      std::string places, outputs, carries, inputs, fed, network;
      std::map<std::string, Numbers> feeds;
      std::vector<std::string> wanted, fetched = {"loss"};
      for (int i = 0; i < count; ++i) {
        const std::string place = absl::StrCat("p", i), x = absl::StrCat("x", i);
        const std::string output = i == 0 ? "l" : absl::StrCat("l:", i);
        absl::StrAppend(&places, " input: \"", place, "\"");
        absl::StrAppend(&outputs, " output: \"$", place, "\"");
        absl::StrAppend(&carries, " carry { input: \"", place, "\" output: \"p", (i + 1) % count, "\" }");
        absl::StrAppend(&fed, " input: \"", x, "\"");
        wanted.push_back(x);
        fetched.push_back(output);
        feeds[x] = Waves(8, i);
        absl::SubstituteAndAppend(&network, R"(
          layer { name: "f$1" input: "$0" scale { factor: $2 } }
          layer { name: "s$1" input: "f$1" square {} }
          layer { name: "sum$1" input: "s$1" input: "$3" add {} }
          output: "$0")",
                                  output, i, 2 + i, i == 0 ? "s0" : absl::StrCat("sum", i - 1));
        absl::StrAppend(&inputs, "input { name: \"", x, "\" shape { dim: 4 } }\n");
      }
      const std::string text = absl::StrCat(
          "block { name: \"turn\"", places, outputs, R"( layer { name: "unread" input: "$p0" tanh {} } })",
          "\nbatch: 2\n", inputs, "layer { name: \"l\"", fed, " loop { body: \"turn\" times: ", rounds, carries, " } }",
          network, "\nlayer { name: \"loss\" input: \"sum", count - 1, "\" reduce_sum {} }\nobjective: \"loss\"");
      EXPECT_EQ(BytesCopied(text, feeds, wanted, fetched, testing::Each(0)), 0);
    }
  }
}

// A multi-view of type II: round 0 reads the loop's input, which stays, as it is read again after the loop; the rounds
// after it read what alternates between two buffers, or, in training, what was stashed for the gradient.
TEST(RolledLoops, WhatALoopBeginsWithStays) {
  const std::string text = R"(
    block { name: "body" input: "x" input: "w" layer { name: "y" input: "$x" input: "$w" matmul {} } }
    batch: 2
    input { name: "z" shape { dim: [4, 4] } }
    input { name: "w" shape { dim: [4, 4] } }
    layer { name: "l" input: "z" input: "w" loop { body: "body" times: 7 carry { input: "x" output: "y" } } }
    layer { name: "again" input: "l" input: "z" mul {} }
    layer { name: "loss" input: "again" reduce_sum {} }
    objective: "loss"
    output: "l"
    output: "again")";
  EXPECT_EQ(
      BytesCopied(text, {{"z", Waves(32, 0)}, {"w", Waves(32, 1)}}, {"z", "w"}, {"loss", "l", "again"}, ElementsAre(0)),
      0);
  CompileOptions options{.training = false, .loops = LoopRule::kRolled};
  const auto session = MakeSession(text, options);
  ASSERT_TRUE(session.ok()) << session.status().message();
  EXPECT_THAT(Rolled((*session)->compiled()).at("l")->CarryBuffers(), ElementsAre(2));
}

// What a round reads of a sequence whose slices are not one range of bytes, and its number, are carried on to the next
// rounds from where they were read: each slice is copied once.
TEST(RolledLoops, SlicesAndNumbersThatAreCarried) {
  const std::string text = R"(
    block { name: "body" input: "x" input: "s" input: "before" input: "twice" input: "t" input: "number"
      layer { name: "changes" input: "$s" input: "$twice" sub {} }
      layer { name: "p" input: "$x" input: "changes" mul {} }
      layer { name: "n" input: "$number" cast { dtype: FLOAT64 } }
      layer { name: "q" input: "p" input: "n" add {} }
      layer { name: "y" input: "q" input: "$before" add {} }
      output: "y" output: "$s" output: "$before" output: "$t" }
    batch: 2
    input { name: "x" shape { dim: 4 } }
    input { name: "s" shape { dim: [5, 4] } }
    input { name: "n" dtype: INT32 no_batch: true }
    layer { name: "l" input: "x" input: "s" input: "x" input: "x" input: "n" loop { body: "body" scan { input: "s" } index: "t"
      carry { input: "x" output: "y" } carry { input: "before" output: "s" } carry { input: "twice" output: "before" }
      carry { input: "number" output: "t" } } }
    layer { name: "two" input: "l" input: "l:1" add {} }
    layer { name: "sum" input: "two" input: "l:2" add {} }
    layer { name: "loss" input: "sum" reduce_sum {} }
    objective: "loss"
    output: "l" output: "l:1" output: "l:2" output: "l:3")";
  const std::map<std::string, Numbers> feeds = {{"x", Waves(8, 0)}, {"s", Waves(40, 1)}, {"n", {9}}};
  const int64_t slices = 5 * 2 * 4 * 8;
  // Of the forward loop, whose carried slices lie in three buffers: they are read until the second round after theirs.
  // The gradient's rounds write what they owe to each slice, once.
  EXPECT_EQ(BytesCopied(text, feeds, {"x", "s"}, {"loss", "l", "l:1", "l:2", "l:3"}, ElementsAre(testing::_, 3, 0, 2)),
            2 * slices);
}

// Each of these carries lies in more buffers than it needs, so that all alternate with the longest.
TEST(RolledLoops, DelayLinesOfManyLengths) {
  const std::vector<int> lengths = {7, 11, 13, 17};
  constexpr int kRounds = 5000;
  CompileOptions options{.training = false, .loops = LoopRule::kRolled};
  std::vector<std::string> fetched;
  for (int i = 0; i < 7 + 11 + 13 + 17; ++i) fetched.push_back(i == 0 ? "l" : absl::StrCat("l:", i));
  options.fetch = fetched;
  const auto session = MakeUnfed(DelayLines(lengths, kRounds, R"(name: "y" input: "x" scale { offset: 1 })"), options);
  ASSERT_TRUE(session.ok()) << session.status().message();
  const RolledLoop& loop = *Rolled((*session)->compiled()).at("l");
  std::vector<int> buffers = loop.CarryBuffers();
  std::erase(buffers, 0);
  EXPECT_THAT(buffers, ElementsAre(8, 16, 16, 32));
  for (int i = 0; i < 17; ++i) {
    ASSERT_TRUE((*session)->Feed(absl::StrCat("a", i), Numbers(16, 10'000 * i)).ok());
  }
  ASSERT_TRUE((*session)->Run().ok());
  auto name = fetched.begin();
  for (const int length : lengths) {
    for (int place = 0; place < length; ++place) {
      // What is here began `kRounds` places earlier, and each time around one was added.
      const int begun = ((place - kRounds) % length + length) % length;
      const int around = (begun + kRounds - place) / length;
      EXPECT_EQ(*(*session)->Fetch(*name), Numbers(16, 10'000 * begun + around)) << length << ", " << place;
      ++name;
    }
  }
}

}  // namespace
}  // namespace snug::core::test
