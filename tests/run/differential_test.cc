// Random networks, three steps in double, against what PyTorch made of them (tests/golden/differential, made by
// tests/differential/make_goldens.py). Where there is PyTorch, differential_test.py there compares others with it at
// once.
#include <absl/strings/str_cat.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <iterator>

#include "tests/run/differential_case.h"
#include "tests/testing/source_path.h"

namespace snug::core::test {
namespace {

constexpr double kTolerance = 1e-10;

std::vector<DifferentialCase> Goldens() {
  std::ifstream file(SourcePath("tests/golden/differential/networks.golden"));
  const std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  absl::StatusOr<std::vector<DifferentialCase>> cases = ParseDifferentialCases(text);
  EXPECT_TRUE(cases.ok()) << cases.status();
  return cases.ok() ? *std::move(cases) : std::vector<DifferentialCase>();
}

void ExpectNear(double found, double expected, double scale, const std::string& what) {
  EXPECT_LE(std::abs(found - expected), kTolerance * std::max(1.0, scale))
      << what << ": found " << found << ", PyTorch has " << expected;
}

void ExpectAsPyTorch(const DifferentialCase& test, const CompileOptions& options) {
  SCOPED_TRACE(absl::StrCat("case ", test.seed, "\n", test.network));
  const absl::StatusOr<DifferentialRun> run = Train(test, options);
  ASSERT_TRUE(run.ok()) << run.status();
  ASSERT_EQ(run->curves.size(), test.curves.size());
  for (const auto& [name, expected] : test.curves) {
    const auto found = run->curves.find(name);
    ASSERT_NE(found, run->curves.end()) << name;
    for (size_t step = 0; step < expected.size(); ++step) {
      ExpectNear(found->second[step], expected[step], std::abs(expected[step]), absl::StrCat(name, ", step ", step));
    }
  }
  ASSERT_EQ(run->tensors.size(), test.digests.size());
  for (const auto& [name, expected] : test.digests) {
    const auto found = run->tensors.find(name);
    ASSERT_NE(found, run->tensors.end()) << name;
    const DifferentialCase::Digest digest = DigestOf(test, name, found->second);
    double largest = 0;
    for (const double value : found->second) largest = std::max(largest, std::abs(value));
    ExpectNear(digest.sum, expected.sum, largest, name);
    ExpectNear(digest.product, expected.product, largest, absl::StrCat(name, ", weighted"));
  }
}

TEST(Differential, RandomNetworksTrainAsInPyTorch) {
  const std::vector<DifferentialCase> cases = Goldens();
  EXPECT_EQ(cases.size(), 300U);
  for (const DifferentialCase& test : cases) ExpectAsPyTorch(test, {});
}

TEST(Differential, SoTheyDoWithoutPasses) {
  const std::vector<std::string> passes = PassNames();
  for (const DifferentialCase& test : Goldens()) {
    ExpectAsPyTorch(test, {.disabled_passes = {passes.begin(), passes.end()}});
  }
}

}  // namespace
}  // namespace snug::core::test
