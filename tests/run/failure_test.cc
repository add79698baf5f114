// What a Step that fails leaves of a training.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/run/train_util.h"
#include "tests/testing/kernel_of.h"

namespace snug::core {
namespace {

using testing::HasSubstr;

// Where the planted failure lies: the number of the first Step of that kind.
template <class Kind>
std::unique_ptr<Session> WithFailure(const LoadedNetwork& loaded, std::shared_ptr<const KernelRow>* restored,
                                     Kind&& kind) {
  absl::StatusOr<Compiled> compiled = Compile(loaded.network, loaded.source_map, OpRegistry::Builtin(),
                                              {.batch = 4, .threads = 1, .keep_inputs = true});
  EXPECT_TRUE(compiled.ok()) << compiled.status().message();
  std::vector<Step>& steps = compiled->executable.steps;
  const auto step = std::find_if(steps.begin(), steps.end(), kind);
  EXPECT_TRUE(step != steps.end());
  *restored = step->kernel;
  step->kernel = test::KernelOf(Fails);
  auto session = Session::Create(*std::move(compiled), {.seed = 3});
  EXPECT_TRUE(session.ok()) << session.status().message();
  EXPECT_TRUE(FeedRandom(**session, OpRegistry::Builtin(), 3).ok());
  return *std::move(session);
}

TEST(Failure, BeforeAnyVariableChangedLeavesThemAll) {
  const absl::StatusOr<LoadedNetwork> loaded = LoadModel("mlp");
  ASSERT_TRUE(loaded.ok()) << loaded.status().message();
  std::shared_ptr<const KernelRow> kernel;
  const auto session = WithFailure(*loaded, &kernel, [](const Step& step) { return !step.mutates; });
  const std::vector<std::byte> before = StateBytes(*session);
  for (int i = 0; i < 2; ++i) {
    const absl::Status status = session->Run();
    EXPECT_THAT(std::string(status.message()), HasSubstr("planted"));
    EXPECT_THAT(std::string(status.message()), HasSubstr("mlp.pbtxt:"));
    EXPECT_TRUE(StateBytes(*session) == before);
  }
}

TEST(Failure, AmongUpdatesMarksTheSession) {
  const absl::StatusOr<LoadedNetwork> loaded = LoadModel("mlp");
  ASSERT_TRUE(loaded.ok()) << loaded.status().message();
  std::shared_ptr<const KernelRow> kernel;
  const auto session = WithFailure(*loaded, &kernel, [](const Step& step) { return step.mutates; });
  EXPECT_THAT(std::string(session->Run().message()), HasSubstr("planted"));
  const absl::Status again = session->Run();
  EXPECT_EQ(again.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(again.message()), HasSubstr("the session has failed"));
  session->VariablesRestored();
  EXPECT_THAT(std::string(session->Run().message()), HasSubstr("planted"));
}

}  // namespace
}  // namespace snug::core
