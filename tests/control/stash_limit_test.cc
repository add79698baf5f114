// A limit of what loops keep for gradients: everything is kept where it fits, otherwise as few loops as possible
// compute rounds anew, in the longest chunks that fit; and what cannot fit is refused with what would.
#include "engine/compile/control/stash_limit.h"

#include <absl/strings/str_cat.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <random>
#include <string>
#include <vector>

#include "engine/base/has_cuda.h"
#include "engine/compile/compile_settings.h"
#include "engine/compile/control/loop_report.h"
#include "tests/control/control_run.h"

namespace snug::core::test {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

// Two layers of the same size. Sequences lie [batch, rounds, units]: what is collected is no stash as well.
std::string Stashing(int rounds) {
  return absl::StrCat(R"(
    block { name: "cell" input: "x" input: "h"
      layer { name: "ih" input: "$x" dense { units: 8 } }
      layer { name: "hh" input: "$h" dense { units: 8 } }
      layer { name: "sum" input: "ih" input: "hh" add {} }
      layer { name: "next" input: "sum" tanh {} }
      output: "next" }
    batch: 4
    input { name: "x" shape { dim: [)",
                      rounds, R"(, 8] } }
    input { name: "h" shape { dim: 8 } }
    layer { name: "a" input: "x" input: "h" loop { body: "cell" scan { input: "x" }
      carry { input: "h" output: "next" } collect { output: "next" } } }
    layer { name: "wave" input: "a:1" sin {} }
    layer { name: "b" input: "wave" input: "h" loop { body: "cell" scan { input: "x" }
      carry { input: "h" output: "next" } collect { output: "next" } } }
    layer { name: "squares" input: "b:1" square {} }
    layer { name: "loss" input: "squares" reduce_mean {} }
    objective: "loss")");
}

absl::StatusOr<Compiled> CompileWithin(const std::string& text, int64_t limit, int64_t recompute = 0) {
  const absl::StatusOr<LoadedNetwork> loaded = LoadNetworkText(text, "test");
  if (!loaded.ok()) return loaded.status();
  return Compile(loaded->network, loaded->source_map, OpRegistry::Builtin(),
                 {.loops = LoopRule::kRolled,
                  .recompute_rounds = recompute,
                  .stash_limit = limit,
                  .disabled_passes = {"hoist_loop_inputs"}});
}

int64_t InAll(const Compiled& compiled) {
  int64_t kept = 0, at_once = 0;
  for (const LoopChoice& loop : compiled.loops) {
    kept += loop.stash_bytes;
    at_once = std::max(at_once, loop.chunk_stash_bytes);
  }
  return kept + at_once;
}

std::vector<int64_t> ChunksOf(const Compiled& compiled) {
  std::vector<int64_t> chunks;
  for (const LoopChoice& loop : compiled.loops) chunks.push_back(loop.chunk);
  return chunks;
}

TEST(StashLimit, EverythingIsKeptWhereItFits) {
  const std::string text = Stashing(60);
  const absl::StatusOr<Compiled> free = CompileWithin(text, 0);
  ASSERT_TRUE(free.ok()) << free.status().message();
  const int64_t all = InAll(*free);
  ASSERT_GT(all, 60 * 4 * 8 * 4);
  const absl::StatusOr<Compiled> limited = CompileWithin(text, all);
  ASSERT_TRUE(limited.ok()) << limited.status().message();
  EXPECT_THAT(ChunksOf(*limited), ElementsAre(0, 0));
  EXPECT_EQ(limited->planned_bytes(), free->planned_bytes());
  const absl::StatusOr<Compiled> less = CompileWithin(text, all - 1);
  ASSERT_TRUE(less.ok()) << less.status().message();
  EXPECT_LT(InAll(*less), all);
}

// For limits of all sizes: what is found fits, and no less is computed anew, and no longer chunk fits.
TEST(StashLimit, AsLittleAsPossibleIsComputedAnew) {
  const std::string text = Stashing(60);
  const int64_t all = InAll(*CompileWithin(text, 0));
  std::map<int64_t, int64_t> with_both;  // by chunk
  for (const int64_t chunk : {2, 3, 4, 5, 6, 10, 12, 15, 20, 30})
    with_both[chunk] = InAll(*CompileWithin(text, 0, chunk));
  int refused = 0, one = 0, both = 0;
  for (int64_t limit = all / 16; limit < all; limit += all / 16) {
    const absl::StatusOr<Compiled> found = CompileWithin(text, limit);
    if (!found.ok()) {
      EXPECT_TRUE(absl::IsResourceExhausted(found.status())) << found.status();
      for (const auto& [chunk, bytes] : with_both) EXPECT_GT(bytes, limit) << chunk;
      ++refused;
      continue;
    }
    EXPECT_LE(InAll(*found), limit);
    const std::vector<int64_t> chunks = ChunksOf(*found);
    const auto split = std::count_if(chunks.begin(), chunks.end(), [](int64_t chunk) { return chunk > 0; });
    if (split == 1) {
      ++one;
      continue;
    }
    ASSERT_EQ(split, 2);
    ++both;
    EXPECT_EQ(chunks[0], chunks[1]);
    for (const auto& [chunk, bytes] : with_both) {
      EXPECT_TRUE(chunk <= chunks[0] || bytes > limit) << chunk;
    }
    EXPECT_LT(limit, all / 2 + with_both.begin()->second);  // or one of them would have done
  }
  EXPECT_GT(refused, 0);
  EXPECT_GT(one, 0);
  EXPECT_GT(both, 0);
}

TEST(StashLimit, WhatDoesNotFitIsRefusedWithTheSizeThatDoes) {
  const std::string text = Stashing(60);
  const absl::Status refused = CompileWithin(text, 100).status();
  ASSERT_TRUE(absl::IsResourceExhausted(refused)) << refused;
  EXPECT_TRUE(IsAboutStashLimit(refused));
  EXPECT_FALSE(IsAboutStashLimit(absl::ResourceExhaustedError(refused.message())));
  const std::string message(refused.message());
  EXPECT_THAT(message, AllOf(HasSubstr("test:"), HasSubstr("layer \"a\" (loop)"), HasSubstr("the limit is 100;")));
  const size_t at = message.find("--stash-limit=");
  ASSERT_NE(at, std::string::npos) << message;
  const int64_t least = std::stoll(message.substr(at + 14));
  EXPECT_FALSE(CompileWithin(text, least - 1).ok());
  const absl::StatusOr<Compiled> found = CompileWithin(text, least);
  ASSERT_TRUE(found.ok()) << found.status().message();
  EXPECT_EQ(InAll(*found), least);
}

// A prime number of rounds has a last chunk that is shorter, and about the bytes of a number that has divisors.
TEST(StashLimit, APrimeNumberOfRoundsFitsWhereItsNeighbourDoes) {
  const std::string prime = Stashing(61);
  const int64_t all = InAll(*CompileWithin(prime, 0));
  const auto least = [](const std::string& text) {
    const std::string message(CompileWithin(text, 1).status().message());
    return std::stoll(message.substr(message.find("--stash-limit=") + 14));
  };
  const int64_t of_prime = least(prime), of_neighbour = least(Stashing(60));
  EXPECT_LT(of_prime, all / 3);
  EXPECT_NEAR(static_cast<double>(of_prime), static_cast<double>(of_neighbour), 0.1 * of_neighbour);
  for (const int64_t limit : {of_prime, all / 3, all / 2, all - 1}) {
    const absl::StatusOr<Compiled> found = CompileWithin(prime, limit);
    ASSERT_TRUE(found.ok()) << found.status().message();
    EXPECT_LE(InAll(*found), limit);
    EXPECT_EQ(found->loops[0].rounds, 61);
  }
  EXPECT_EQ(InAll(*CompileWithin(prime, of_prime)), of_prime);
}

// What is kept and what is there at once, as the chooser foresees it, for chunks of every length.
TEST(StashLimit, EveryLengthOfChunksTakesWhatItShould) {
  for (const int rounds : {1, 2, 12, 13}) {
    const int64_t carry = 4 * 8 * 4, round = 4 * 8 * 4;  // of one loop: h, and what tanh puts out
    for (int64_t chunk = 1; chunk <= rounds + 3; ++chunk) {
      const absl::StatusOr<Compiled> compiled = CompileWithin(Stashing(rounds), 0, chunk);
      ASSERT_TRUE(compiled.ok()) << compiled.status().message();
      const LoopChoice& loop = compiled->loops[0];
      if (rounds == 1) {
        EXPECT_EQ(loop.chunk, 0);
        EXPECT_EQ(loop.why_not, "it has one round only");
        continue;
      }
      const int64_t length = std::min<int64_t>(chunk, rounds), chunks = (rounds + length - 1) / length;
      EXPECT_EQ(loop.chunk, length);
      EXPECT_EQ(loop.stash_bytes, chunks * carry) << rounds << ", " << chunk;
      EXPECT_EQ(loop.chunk_stash_bytes, length * round) << rounds << ", " << chunk;
    }
  }
}

TEST(StashLimit, ACountOfRunTimeKeepsItsBound) {
  std::string text = Stashing(60);
  const size_t at = text.find("layer { name: \"b\"");
  text = text.substr(0, at) + "input { name: \"count\" dtype: INT32 }\n" + text.substr(at);
  text.replace(text.find("input: \"wave\" input: \"h\""), 24, "input: \"wave\" input: \"h\" input: \"count\"");
  text.replace(text.find("loop { body: \"cell\"", at), 19, "loop { body: \"cell\" counted: true");
  const absl::StatusOr<Compiled> free = CompileWithin(text, 0);
  ASSERT_TRUE(free.ok()) << free.status().message();
  ASSERT_EQ(free->loops.size(), 2);
  EXPECT_FALSE(free->loops[0].bound);
  EXPECT_TRUE(free->loops[1].bound);
  EXPECT_GE(free->loops[1].stash_bytes, free->loops[0].stash_bytes);  // of all rounds that there may be
  EXPECT_THAT(StashText(*free), HasSubstr("of all of at most 60 rounds"));
  // The other one computes rounds anew for it.
  const absl::StatusOr<Compiled> limited = CompileWithin(text, InAll(*free) - 1);
  ASSERT_TRUE(limited.ok()) << limited.status().message();
  EXPECT_GT(limited->loops[0].chunk, 0);
  EXPECT_EQ(limited->loops[1].chunk, 0);
  EXPECT_THAT(std::string(CompileWithin(text, free->loops[1].stash_bytes - 1).status().message()),
              AllOf(HasSubstr("layer \"b\" (loop)"), HasSubstr("it may end early")));
}

// Gradients in double, where rounds are computed anew as the options say.
std::vector<Numbers> GradientsOf(const std::vector<std::string>& names, const std::string& text, CompileOptions options,
                                 std::vector<int64_t>* chunks = nullptr) {
  options.loops = LoopRule::kRolled;
  options.precision = DType::kFloat64;
  options.gradients = names;
  std::vector<Numbers> found;
  auto session = MakeUnfed(text, options);
  EXPECT_TRUE(session.ok()) << session.status().message();
  if (!session.ok()) return found;
  EXPECT_TRUE(FeedRandom(**session, OpRegistry::Builtin(), 1).ok());
  EXPECT_TRUE((*session)->Run().ok());
  for (const std::string& name : names) found.push_back(*(*session)->Fetch(absl::StrCat("d(", name, ")")));
  if (chunks != nullptr) {
    const absl::StatusOr<LoadedNetwork> loaded = LoadNetworkText(text, "test");
    *chunks = ChunksOf(*Compile(loaded->network, loaded->source_map, OpRegistry::Builtin(), options));
  }
  return found;
}

TEST(StashLimit, ChunksAreThoseOfThatLengthToTheBit) {
  const std::string text = Stashing(60);
  const int64_t third = InAll(*CompileWithin(text, 0)) / 3;
  std::vector<int64_t> chunks;
  const std::vector<Numbers> limited =
      GradientsOf({"x", "h", "a.hh.weight"}, text, {.stash_limit = 2 * third}, &chunks);  // numbers are twice as wide
  ASSERT_EQ(chunks.size(), 2);
  ASSERT_GT(chunks[0], 0);
  ASSERT_EQ(chunks[0], chunks[1]);
  EXPECT_EQ(GradientsOf({"x", "h", "a.hh.weight"}, text, {.recompute_rounds = chunks[0]}), limited);
}

// A loop of 4 rounds, each of which runs a loop of 144, by itself or as a body of a branch.
constexpr absl::string_view kInside = R"(
    layer { name: "l" input: "$x" input: "$h" loop { body: "cell" scan { input: "x" }
      carry { input: "h" output: "next" } } }
    output: "l")";

std::string Nested(bool in_branches) {
  return absl::StrCat(R"(
    block { name: "cell" input: "x" input: "h"
      layer { name: "hh" input: "$h" dense { units: 8 } }
      layer { name: "sum" input: "$x" input: "hh" add {} }
      layer { name: "next" input: "sum" tanh {} }
      output: "next" }
    block { name: "inside" input: "x" input: "h" )",
                      kInside, R"( }
    block { name: "around" input: "x" input: "h" )",
                      in_branches ? R"(input: "w"
      layer { name: "l" input: "$w" input: "$x" input: "$h" branch { body: "inside" body: "inside" } }
      output: "l" })"
                                  : absl::StrCat(kInside, " }"),
                      R"(
    batch: 4
    input { name: "w" dtype: INT32 max_value: 2 }
    input { name: "x" shape { dim: [144, 8] } }
    input { name: "h" shape { dim: 8 } }
    layer { name: "o" input: "x" input: "h" )",
                      in_branches ? R"(input: "w" )" : "",
                      R"( loop { body: "around" times: 4 carry { input: "h" output: "l" } } }
    layer { name: "squares" input: "o" square {} }
    layer { name: "loss" input: "squares" reduce_mean {} }
    objective: "loss")");
}

TEST(StashLimit, LoopsInsideOthersAreSplitWhereThatIsNeeded) {
  for (const bool in_branches : {false, true}) {
    const std::string text = Nested(in_branches);
    const int64_t whole = InAll(*CompileWithin(text, 0)), by_root = InAll(*CompileWithin(text, 0, kSquareRoot));
    ASSERT_LT(by_root, whole / 4);
    // What the outer loop can do by itself is not left to those inside: half of its rounds fit.
    const absl::StatusOr<Compiled> half = CompileWithin(text, whole * 3 / 4);
    ASSERT_TRUE(half.ok()) << half.status().message();
    EXPECT_GT(half->loops[0].chunk, 0);
    for (size_t i = 1; i < half->loops.size(); ++i) EXPECT_EQ(half->loops[i].chunk, 0) << half->loops[i].name;

    const absl::StatusOr<Compiled> less = CompileWithin(text, by_root);
    ASSERT_TRUE(less.ok()) << less.status().message();
    EXPECT_LE(InAll(*less), by_root);
    ASSERT_EQ(less->loops.size(), in_branches ? 3 : 2);
    for (size_t i = 1; i < less->loops.size(); ++i) EXPECT_EQ(less->loops[i].chunk, 12) << less->loops[i].name;

    const std::string message(CompileWithin(text, 100).status().message());
    EXPECT_TRUE(IsAboutStashLimit(CompileWithin(text, 100).status()));
    EXPECT_THAT(message, AllOf(HasSubstr("layer \"o\" (loop)"), HasSubstr("; of loops inside others, only chunks of")));
    const size_t at = message.find("--stash-limit=");
    ASSERT_NE(at, std::string::npos) << message;
    const int64_t least = std::stoll(message.substr(at + 14));
    EXPECT_LE(least, by_root);
    EXPECT_FALSE(CompileWithin(text, least - 1).ok());
    const absl::StatusOr<Compiled> found = CompileWithin(text, least);
    ASSERT_TRUE(found.ok()) << found.status().message();
    EXPECT_EQ(InAll(*found), least);

    std::vector<int64_t> chunks;
    const std::vector<Numbers> limited = GradientsOf({"x", "h"}, text, {.stash_limit = 2 * by_root}, &chunks);
    ASSERT_FALSE(chunks.empty());
    ASSERT_EQ(chunks[0], 2);
    EXPECT_EQ(GradientsOf({"x", "h"}, text, {.recompute_rounds = kSquareRoot}), limited);
    const std::vector<Numbers> kept = GradientsOf({"x", "h"}, text, {});
    ASSERT_EQ(kept.size(), limited.size());
    for (size_t i = 0; i < kept.size(); ++i) {
      EXPECT_THAT(limited[i], testing::Pointwise(testing::DoubleNear(1e-12), kept[i]));
    }
  }
}

TEST(StashLimit, WhatIsKeptIsSaidForEveryLengthOfChunks) {
  for (const int64_t chunk : {2, 3, 7, 12}) {
    const absl::StatusOr<Compiled> compiled = CompileWithin(Stashing(60), 0, chunk);
    ASSERT_TRUE(compiled.ok()) << compiled.status().message();
    const LoopChoice& loop = compiled->loops[0];
    EXPECT_THAT(StashText(*compiled),
                HasSubstr(absl::StrCat("stash of loop \"a\": ", loop.stash_bytes, " bytes of one in every ", chunk,
                                       " of 60 rounds, and ", loop.chunk_stash_bytes, " while the gradients of ", chunk,
                                       " are computed\n")));
  }
}

// Beside all that there is, for loops that are made up.
TEST(StashLimit, OfManyLoopsTheCheapestAreChosen) {
  std::mt19937 random(7);
  const auto below = [&](int n) { return static_cast<int64_t>(random() % static_cast<unsigned>(n)); };
  int chosen = 0;
  for (int trial = 0; trial < 300; ++trial) {
    std::vector<LoopStash> kept, anew;
    int64_t sum = 0;
    for (int i = 0; i < 4; ++i) {
      const int64_t rounds = 12, stash = 64 * (1 + below(20)), carry = 64 * (1 + below(4));
      LoopStash& all = kept.emplace_back();
      all.loop = absl::StrCat("l", i);
      all.rounds = rounds;
      all.kept = rounds * stash;
      all.flops = static_cast<double>(1 + below(1000));
      LoopStash& parts = anew.emplace_back(all);
      parts.chunk = below(5) == 0 ? 0 : 4;
      parts.kept = parts.chunk == 0 ? all.kept : 3 * carry;
      parts.again = parts.chunk * stash;
      parts.kept_by_chunk = carry;
      parts.again_by_round = stash;
      sum += all.kept;
    }
    const int64_t limit = 1 + below(static_cast<int>(sum));
    // Everything that can be done: each loop with each chunk.
    double least = -1;
    constexpr int64_t kChunks[] = {0, 1, 2, 3, 4, 5, 6, 12};
    for (int code = 0; code < 8 * 8 * 8 * 8; ++code) {
      int64_t bytes = 0, at_once = 0;
      double flops = 0;
      bool possible = true;
      for (int i = 0, rest = code; i < 4; ++i, rest /= 8) {
        const LoopStash &all = kept[static_cast<size_t>(i)], &parts = anew[static_cast<size_t>(i)];
        const int64_t chunk = kChunks[rest % 8];
        possible = possible && (chunk == 0 || parts.chunk > 0);
        bytes += chunk == 0 ? all.kept : parts.kept / 3 * ((11 + chunk) / chunk);
        at_once = std::max(at_once, chunk == 0 ? 0 : parts.again / 4 * chunk);
        if (chunk > 0) flops += all.flops;
      }
      if (possible && bytes + at_once <= limit && (least < 0 || flops < least)) least = flops;
    }
    const absl::StatusOr<Chunks> found = ChunksWithin(limit, kept, anew);
    ASSERT_EQ(found.ok(), least >= 0) << trial;
    if (!found.ok()) continue;
    double flops = 0;
    for (const LoopStash& loop : kept) flops += found->contains(loop.loop) ? loop.flops : 0;
    EXPECT_EQ(flops, least) << trial;
    ++chosen;
  }
  EXPECT_GT(chosen, 50);
}

// 1800 lengths of chunks and more for each of as many loops as are tried in all combinations, none of which but the
// last fits; and for many more loops than that.
TEST(StashLimit, ManyLengthsOfManyLoopsTakeNoTime) {
  constexpr int64_t kRounds = 735134400, kChunk = 27300;
  for (const int count : {12, 60}) {
    std::vector<LoopStash> kept, anew;
    for (int i = 0; i < count; ++i) {
      const int64_t width = 32 + 4 * i;
      LoopStash& all = kept.emplace_back();
      all.loop = absl::StrCat("l", i);
      all.rounds = kRounds;
      all.kept = kRounds * 2 * width;
      all.flops = static_cast<double>(1 + i);
      LoopStash& parts = anew.emplace_back(all);
      parts.chunk = kChunk;
      parts.kept = kRounds / kChunk * width;
      parts.again = kChunk * 2 * width;
      parts.kept_by_chunk = width;
      parts.again_by_round = 2 * width;
    }
    const auto begin = std::chrono::steady_clock::now();
    const absl::Status refused = ChunksWithin(1, kept, anew).status();
    const std::string message(refused.message());
    const size_t at = message.find("--stash-limit=");
    ASSERT_NE(at, std::string::npos) << message;
    const int64_t least = std::stoll(message.substr(at + 14));
    EXPECT_FALSE(ChunksWithin(least - 1, kept, anew).ok());
    const absl::StatusOr<Chunks> found = ChunksWithin(least, kept, anew);
    ASSERT_TRUE(found.ok()) << found.status();
    EXPECT_EQ(found->size(), static_cast<size_t>(count));
    // Where there is room for what one loop keeps, and as much again, that one is not split.
    const absl::StatusOr<Chunks> one = ChunksWithin(kept.back().kept * 2, kept, anew);
    ASSERT_TRUE(one.ok()) << one.status();
    EXPECT_LT(one->size(), static_cast<size_t>(count));
    EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(20)) << count << " loops";
  }
}

TEST(StashLimit, SaysWhatItDoesNotGoWith) {
  const auto refused = [](CompileSettings settings) {
    settings.stash_limit = "1MB";
    return std::string(SettleCompile(settings, 1, OptionPlaces::OnCommandLine()).status().message());
  };
  EXPECT_EQ(refused({.recompute_rounds = 3}),
            "--stash-limit: chooses the rounds that are kept by itself; leave it or --recompute-rounds out");
  EXPECT_EQ(refused({.loops = "unrolled"}), "--stash-limit: is for loops that stay one node, found --loops=unrolled");
  const auto anew = [](const CompileSettings& settings) {
    return std::string(SettleCompile(settings, 1, OptionPlaces::OnCommandLine()).status().message());
  };
  EXPECT_EQ(anew({.loops = "unrolled", .recompute_rounds = 3}),
            "--recompute-rounds: is for loops that stay one node, found --loops=unrolled");
  EXPECT_EQ(anew({.loops = "rolled", .recompute_rounds = 3}), "");
#if SNUG_HAS_CUDA
  EXPECT_EQ(anew({.device = "cuda", .recompute_rounds = -1}),
            "--recompute-rounds: is for loops that stay one node, found --device=cuda, where all are unrolled");
  EXPECT_EQ(anew({.device = "cuda", .loops = "rolled"}),
            "--loops: rolled is for the CPU, found --device=cuda, where all loops are unrolled");
#endif
  CompileSettings wrong;
  wrong.stash_limit = "much";
  EXPECT_THAT(std::string(SettleCompile(wrong, 1, OptionPlaces::OnCommandLine()).status().message()),
              HasSubstr("--stash-limit: expected a number of bytes"));
}

TEST(StashLimit, NoneIsNotWrittenAsZero) {
  for (const char* const loops : {"", "unrolled"}) {
    CompileSettings settings{.loops = loops};
    settings.stash_limit = "0";
    EXPECT_EQ(SettleCompile(settings, 1, OptionPlaces::OnCommandLine()).status().message(),
              "--stash-limit: expected at least 1 byte; leave it out for none");
  }
}

TEST(StashLimit, OptionsThatDoNotGoTogetherAreRefusedWhoeverSetThem) {
  const std::string without_loops = R"(batch: 2
    input { name: "x" shape { dim: 4 } }
    layer { name: "y" input: "x" dense { units: 2 } }
    layer { name: "loss" input: "y" reduce_mean {} }
    objective: "loss")";
  const auto refused = [](const std::string& text, const CompileOptions& options) {
    const absl::StatusOr<LoadedNetwork> loaded = LoadNetworkText(text, "test");
    EXPECT_TRUE(loaded.ok()) << loaded.status();
    const absl::Status status =
        CompileGraph(loaded->network, loaded->source_map, OpRegistry::Builtin(), options).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    return std::string(status.message());
  };
  for (const std::string& text : {without_loops, Stashing(60)}) {
    EXPECT_EQ(refused(text, {.stash_limit = -1}), "stash-limit: expected at least 1 byte, or 0 for none, found -1");
    EXPECT_THAT(refused(text, {.recompute_rounds = 3, .stash_limit = 100}), HasSubstr("expected no recompute-rounds"));
    EXPECT_THAT(refused(text, {.device = {.kind = Device::Kind::kCuda}, .stash_limit = 100}),
                AllOf(HasSubstr("stash-limit: is for loops that stay one node"), HasSubstr("cuda")));
    EXPECT_EQ(refused(text, {.loops = LoopRule::kUnrolled, .stash_limit = 100}),
              "stash-limit: is for loops that stay one node, found the rule unrolled");
    EXPECT_EQ(refused(text, {.loops = LoopRule::kUnrolled, .recompute_rounds = 3}),
              "recompute-rounds: is for loops that stay one node, found the rule unrolled");
    EXPECT_THAT(refused(text, {.device = {.kind = Device::Kind::kCuda}, .recompute_rounds = kSquareRoot}),
                AllOf(HasSubstr("recompute-rounds: is for loops that stay one node"), HasSubstr("cuda")));
    EXPECT_THAT(refused(text, {.device = {.kind = Device::Kind::kCuda}, .loops = LoopRule::kRolled}),
                AllOf(HasSubstr("loops: the rule rolled is for the CPU"), HasSubstr("cuda")));
    EXPECT_EQ(refused(text, {.recompute_rounds = -2}),
              "recompute-rounds: expected a number of rounds, 0 for none or -1 for about the square root, found -2");
  }
}

}  // namespace
}  // namespace snug::core::test
