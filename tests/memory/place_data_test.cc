// The public placement instances: what must be reached on each of them.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <string>

#include "memory/formats/formats.h"
#include "memory/formats/text_file.h"
#include "memory/place/placers.h"
#include "memory/problem.h"
#include "memory/verifier.h"
#include "tests/testing/sanitizers.h"
#include "tests/testing/source_path.h"

namespace snug::core::memory {
namespace {

std::string Folder() {
  const char* shared = std::getenv("SNUG_SHARED");
  return (shared != nullptr ? std::string(shared) : test::SourcePath("../shared")) + "/data/dsa/";
}

struct Case {
  const char* file;
  int64_t capacity;       // 0: the least total is looked for
  double ratio_to_bound;  // at most
};

class PublicInstances : public testing::TestWithParam<Case> {};

TEST_P(PublicInstances, ReachTheirBestKnownTotal) {
  const Case& c = GetParam();
  const std::string path = Folder() + c.file;
  if (!std::filesystem::exists(path)) GTEST_SKIP() << path << " is not there: set SNUG_SHARED";
  const absl::StatusOr<std::string> text = ReadTextFile(path);
  ASSERT_TRUE(text.ok()) << text.status();
  const absl::StatusOr<Problem> problem = ParseCsv(*text, path);
  ASSERT_TRUE(problem.ok()) << problem.status();
  const absl::StatusOr<Placement> placement = PlaceExact(*problem, {.capacity = c.capacity});
  ASSERT_TRUE(placement.ok()) << placement.status();
  EXPECT_TRUE(Verify(*problem, placement->plan).ok()) << Verify(*problem, placement->plan);
  const int64_t bound = LowerBound(*problem);
  EXPECT_LE(static_cast<double>(placement->plan.arena_bytes),
            std::max(static_cast<double>(c.capacity), c.ratio_to_bound * static_cast<double>(bound)));
  EXPECT_EQ(placement->report.proven, placement->plan.arena_bytes == placement->report.lower_bound);
}

constexpr Case kCases[] = {
    {"challenging/A.1048576.csv", 1048576, 1},
    {"challenging/C.1048576.csv", 1039360, 1},
    {"challenging/E.1048576.csv", 1048576, 1},
    {"challenging/F.1048576.csv", 1048576, 1},
    {"challenging/J.1048576.csv", 1013760, 1},
    {"challenging/K.1048576.csv", 1048576, 1},
    {"challenging/input.12.csv", 0, 1},
    {"somas/resnet50.csv", 0, 1},
    {"somas/tiny_bert.csv", 0, 1},
    {"somas/pangu_13B.csv", 0, 1},
    {"iopddl/G_1.csv", 0, 1},
    {"iree/iree_mobilebert.csv", 0, 1},
    {"iree/iree_mobilenet.csv", 0, 1},
    {"generated/guillotine.s0.n100.seed1.1048576.csv", 0, 1},
    {"generated/guillotine.s0.n300.seed1.1048576.csv", 0, 1},
    {"generated/guillotine.s30.n100.seed1.1048576.csv", 0, 1},
    {"generated/long.s0.n100.seed1.1048576.csv", 0, 1},
    {"generated/long.s0.n300.seed1.1048576.csv", 0, 1},
    {"generated/long.s30.n100.seed1.1048576.csv", 0, 1},
    {"generated/pinwheel.s0.n100.seed1.1048576.csv", 0, 1},
    {"generated/pinwheel.s30.n100.seed1.1048576.csv", 0, 1},
};

INSTANTIATE_TEST_SUITE_P(Files, PublicInstances, testing::ValuesIn(kCases), [](const auto& info) {
  std::string name = info.param.file;
  std::erase_if(name, [](char c) { return std::isalnum(static_cast<unsigned char>(c)) == 0; });
  return name;
});

// Under a sanitizer half of them: what it looks for shows as well.
constexpr int kHundredThousand = test::kSanitized ? 50'000 : 100'000;

Problem HundredThousand(int64_t longest) {
  uint64_t state = 1;
  const auto below = [&](int64_t limit) {
    state = state * 6364136223846793005U + 1442695040888963407U;
    return static_cast<int64_t>((state >> 33) % static_cast<uint64_t>(limit));
  };
  Problem problem;
  for (int i = 0; i < kHundredThousand; ++i) {
    Buffer b{.size_bytes = 1 + below(1 << 20), .alignment = 64, .first = static_cast<int32_t>(below(kHundredThousand))};
    b.last = b.first + static_cast<int32_t>(below(longest));
    problem.buffers.push_back(b);
  }
  return problem;
}

// What a hundred thousand buffers cost must not depend on how long they live.
void PlaceHundredThousand(int64_t longest) {
  const Problem problem = HundredThousand(longest);
  const absl::StatusOr<Placement> placement = PlaceExact(problem, {});
  ASSERT_TRUE(placement.ok());
  EXPECT_TRUE(Verify(problem, placement->plan).ok());
  EXPECT_LE(placement->plan.arena_bytes, LowerBound(problem) + LowerBound(problem) / 10) << longest;
  EXPECT_LE(placement->report.work, 200'000'000) << longest;
}

TEST(PlaceLarge, AHundredThousandBuffersOfAnyLength) {
  for (const int64_t longest : {20, 1000, 100'000}) PlaceHundredThousand(longest);
}

// Seconds each: as many pairs as are looked at at all.
TEST(CampaignPlaceLarge, AHundredThousandBuffersOfMediumLength) {
  if (std::getenv("SNUG_CAMPAIGN") == nullptr) GTEST_SKIP() << "set SNUG_CAMPAIGN to run it";
  for (const int64_t longest : {100, 200, 400, 700}) PlaceHundredThousand(longest);
}

}  // namespace
}  // namespace snug::core::memory
