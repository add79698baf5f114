// Lets every call in a session's life fail once. That has to be an error and leave nothing behind, and either the
// Variables are as they were, or the session says that they are not.
#include <gtest/gtest.h>

#include <algorithm>
#include <utility>

#include "engine/base/status.h"
#include "engine/run/session/random_feed.h"
#include "tests/cuda/host_kernels.h"

namespace snug::core {
namespace {

using cuda::FakeCuda;

struct Life {
  absl::StatusOr<std::unique_ptr<Session>> Begin(FakeCuda& fake) const {
    SNUG_ASSIGN_OR_RETURN(std::shared_ptr<const cuda::CudaDevice> device, cuda::CudaDevice::Open(fake.api(), 0));
    SNUG_ASSIGN_OR_RETURN(Compiled compiled, CompileForFake(loaded, how, fake));
    std::vector<Compiled> all;
    all.push_back(std::move(compiled));
    return NewSession(std::move(all), how, std::move(device));
  }
  absl::Status Step(Session& session) const {
    SNUG_RETURN_IF_ERROR(FeedRandom(session, OpRegistry::Builtin(), 3));
    SNUG_RETURN_IF_ERROR(session.UploadAhead());
    SNUG_RETURN_IF_ERROR(session.Run());
    return LossOf(session, loaded).status();
  }

  LoadedNetwork loaded;
  How how;
};

class CudaSessionFailures : public testing::TestWithParam<How> {
 protected:
  const Life life_{LoadModel("tests/data/tiny.pbtxt").value(), GetParam()};
};

TEST_P(CudaSessionFailures, WhileASessionIsMadeLeaveNothingBehind) {
  FakeCuda fake;
  ASSERT_TRUE(life_.Begin(fake).ok());
  const auto calls = static_cast<int64_t>(fake.calls().size());
  int64_t reported = 0;
  for (int64_t n = 0; n < calls; ++n) {
    fake.ClearCalls();
    fake.FailCall(n);
    reported += life_.Begin(fake).ok() ? 0 : 1;
    ASSERT_TRUE(fake.has_failed());
    EXPECT_EQ(fake.Leaks(), "") << "after " << fake.calls()[static_cast<size_t>(n)];
  }
  EXPECT_GT(reported, 10);
}

// The first step asks for every op, the second one records the graph, the third one only launches it.
TEST_P(CudaSessionFailures, OfAStepAreErrorsAndTheSessionKnowsWhereItStands) {
  for (const int before : {0, 1, 2}) {
    int64_t calls = 0;
    int64_t harmless = 0;
    for (int64_t n = -1; n < calls; ++n) {
      FakeCuda fake({.seed = static_cast<uint64_t>(n + 2)});
      {
        absl::StatusOr<std::unique_ptr<Session>> made = life_.Begin(fake);
        ASSERT_TRUE(made.ok()) << made.status();
        Session& session = **made;
        for (int i = 0; i < before; ++i) ASSERT_TRUE(life_.Step(session).ok());
        const std::map<std::string, std::string> state = StateBytes(session);
        fake.ClearCalls();
        fake.FailCall(n);
        const absl::Status status = life_.Step(session);
        if (n < 0) {
          ASSERT_TRUE(status.ok()) << status;
          calls = static_cast<int64_t>(fake.calls().size());
          continue;
        }
        // How many calls a step makes may depend on how far streams have come: whoever waits for them asks as often as
        // it must.
        if (!GetParam().dynamic.garbage.gc_fast && !fake.has_failed()) {
          EXPECT_TRUE(status.ok()) << status;
          continue;
        }
        ASSERT_TRUE(fake.has_failed());
        const std::string failed = fake.calls()[static_cast<size_t>(n)];
        const std::string where = failed + ", call " + std::to_string(n) + " after " + std::to_string(before);
        if (failed == "cuGraphDestroy" || failed == "cuGraphExecDestroy") {
          EXPECT_TRUE(status.ok()) << where << ": what is given back has nobody to report to";
        } else {
          // An allocator that is refused memory asks once more, so the step may succeed.
          EXPECT_TRUE(!status.ok() || GetParam().strategy == "dynamic") << where;
          EXPECT_TRUE(status.ok() || status.message().find(failed) != absl::string_view::npos)
              << where << ": " << status;
        }
        if (!status.ok() && !session.failed()) {
          EXPECT_TRUE(StateBytes(session) == state) << where;
          ++harmless;
          const absl::Status again = life_.Step(session);
          EXPECT_TRUE(again.ok()) << where << ": " << again;
        } else if (!status.ok()) {
          EXPECT_EQ(life_.Step(session).code(), absl::StatusCode::kFailedPrecondition) << where;
          for (const auto& [name, bytes] : state) {
            const absl::StatusOr<Session::View> view = session.FindVariable(name, HostAccess::kWrite);
            ASSERT_TRUE(view.ok());
            std::copy(bytes.begin(), bytes.end(), reinterpret_cast<char*>(view->data));
          }
          session.VariablesRestored();
          const absl::Status again = life_.Step(session);
          EXPECT_TRUE(again.ok()) << where << ": " << again;
        }
      }
      EXPECT_EQ(fake.Leaks(), "") << "call " << n;
    }
    EXPECT_GT(harmless, 3);
  }
}

INSTANTIATE_TEST_SUITE_P(Ways, CudaSessionFailures,
                         testing::Values(How{.streams = 2}, How{.streams = 2, .graph = false}, How{.ahead = true},
                                         How{.engine = ExecutorKind::kSerial},
                                         How{.streams = 2, .engine = ExecutorKind::kDynamic},
                                         How{.strategy = "dynamic", .engine = ExecutorKind::kSerial},
                                         How{.strategy = "dynamic", .streams = 2, .engine = ExecutorKind::kDynamic},
                                         How{.strategy = "dynamic",
                                             .streams = 2,
                                             .engine = ExecutorKind::kDynamic,
                                             .dynamic = {.garbage = {.gc_fast = false}}}),
                         [](const auto& info) { return "way" + std::to_string(info.index); });

}  // namespace
}  // namespace snug::core
