// Tests CUDA's libraries behind the kernels of whole networks: that a call that fails is an error and leaves nothing
// behind, what is said where a library does not serve, and that training has the same bits however a step is run. The
// op conformance suite (main.cc) compares what they compute with other kernels.
#include <absl/strings/str_cat.h>
#include <absl/strings/str_join.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <utility>

#include "engine/base/status.h"
#include "engine/run/session/random_feed.h"
#include "tests/cuda/emulation/emulation.h"
#include "tests/cuda/fake_cuda.h"
#include "tests/cuda/networks.h"

namespace snug::core {
namespace {

using cuda::FakeCuda;
using cuda::FakeLibraries;
using testing::AllOf;
using testing::HasSubstr;

// A whole network: every kernel is emulated, products and convolutions are the pretended libraries'.
struct Network {
  LoadedNetwork loaded;
  How how;

  absl::StatusOr<std::unique_ptr<Session>> Begin(FakeCuda& fake) const {
    SNUG_ASSIGN_OR_RETURN(std::shared_ptr<const cuda::CudaDevice> device, cuda::CudaDevice::Open(fake.api(), 0));
    SNUG_ASSIGN_OR_RETURN(Compiled compiled, CompileForCuda(loaded, how));
    std::vector<Compiled> all;
    all.push_back(std::move(compiled));
    return NewSession(std::move(all), how, std::move(device));
  }
  absl::Status Step(Session& session) const {
    SNUG_RETURN_IF_ERROR(FeedRandom(session, OpRegistry::Builtin(), 3));
    return session.Run();
  }
};

class CudaLibraries : public testing::TestWithParam<const char*> {
 protected:
  static std::unique_ptr<FakeCuda> NewFake(FakeLibraries libraries = FakeLibraries::kServe) {
    return std::make_unique<FakeCuda>(
        cuda::FakeOptions{.kernels = cuda::emulation::BindLaunch, .libraries = libraries});
  }
  Network Of(How how) const {
    how.libraries = true;
    how.batch = 2;
    return {LoadModel(GetParam()).value(), how};
  }
};

TEST_P(CudaLibraries, AreStartedAndAskedWhatToDoAsTheSessionOpensItsDevice) {
  const std::unique_ptr<FakeCuda> fake = NewFake();
  {
    const Network network = Of({.streams = 2});
    const std::unique_ptr<Session> session = network.Begin(*fake).value();
    const auto choices = [&] {
      int64_t count = 0;
      for (const std::string& call : fake->calls()) {
        count += call == "cublasLtCreate" || call == "cudnnCreate" || call.find("Algo") != std::string::npos ||
                         call == "cudnnBackendGetAttribute"
                     ? 1
                     : 0;
      }
      return count;
    };
    EXPECT_GT(choices(), 1);
    EXPECT_LE(fake->Count("cublasLtCreate"), 2) << "one for each stream";
    EXPECT_EQ(fake->Count("cublasLtMatmul"), 0);
    fake->ClearCalls();
    // The second of these records the graph and launches it, the third only launches it.
    for (int i = 0; i < 3; ++i) ASSERT_TRUE(network.Step(*session).ok());
    EXPECT_EQ(fake->Count("cuGraphLaunch"), 2);
    EXPECT_EQ(choices(), 0);
    EXPECT_GT(fake->Count("cublasLtMatmul"), 0);
  }
  EXPECT_EQ(fake->Leaks(), "");
}

TEST_P(CudaLibraries, ThatAreMissingChangeNeitherPlanNorOutcomeOfOwnKernels) {
  std::vector<Result> results;
  for (const FakeLibraries libraries : {FakeLibraries::kRefuse, FakeLibraries::kMissing}) {
    const std::unique_ptr<FakeCuda> fake = NewFake(libraries);
    const Network network = Of({});
    const std::unique_ptr<Session> session = network.Begin(*fake).value();
    const absl::StatusOr<Result> result = Train(*session, network.loaded, 2);
    ASSERT_TRUE(result.ok()) << result.status();
    results.push_back(*result);
    EXPECT_EQ(fake->used_bytes(), session->compiled().executable.memory.total_bytes());
  }
  EXPECT_TRUE(results[0] == results[1]);
}

TEST_P(CudaLibraries, EveryCallOfAStepThatFailsIsAnErrorAndLeavesNothingBehind) {
  const Network network = Of({});
  for (const int before : {0, 1}) {
    for (int64_t n = 0;; ++n) {
      const std::unique_ptr<FakeCuda> fake = NewFake();
      bool ended = false;
      {
        const std::unique_ptr<Session> session = network.Begin(*fake).value();
        for (int i = 0; i < before; ++i) ASSERT_TRUE(network.Step(*session).ok());
        fake->ClearCalls();
        fake->FailCall(n);
        const absl::Status status = network.Step(*session);
        ended = !fake->has_failed();
        const std::string failed = ended ? "" : fake->calls()[static_cast<size_t>(n)];
        const bool gives_back =
            failed == "cuGraphDestroy" || failed == "cuGraphExecDestroy" || failed == "cudnnBackendDestroyDescriptor";
        EXPECT_EQ(status.ok(), ended || gives_back) << failed;
        if (!status.ok()) {
          EXPECT_THAT(std::string(status.message()), HasSubstr(failed));
        }
      }
      EXPECT_EQ(fake->Leaks(), "") << n;
      if (ended) break;
    }
  }
}

// Whoever asked for the node is told, and told once, however the step is run.
TEST_P(CudaLibraries, ThatDoNotServeANodeAreNamedAndCounted) {
  for (const auto& [libraries, engine] : {std::pair{FakeLibraries::kRefuse, ExecutorKind::kReplay},
                                          std::pair{FakeLibraries::kRefuse, ExecutorKind::kSerial},
                                          std::pair{FakeLibraries::kRefuse, ExecutorKind::kDynamic},
                                          std::pair{FakeLibraries::kMissing, ExecutorKind::kReplay},
                                          std::pair{FakeLibraries::kServe, ExecutorKind::kReplay}}) {
    const std::unique_ptr<FakeCuda> fake = NewFake(libraries);
    std::vector<std::string> lines;
    const Network network =
        Of({.streams = 2, .engine = engine, .fallbacks = [&](const std::string& line) { lines.push_back(line); }});
    const std::unique_ptr<Session> session = network.Begin(*fake).value();
    std::map<std::string, std::string> expected;  // nodes with a library's kernel
    const Compiled& compiled = session->compiled();
    for (const Step& step : compiled.executable.steps) {
      const Node& node = compiled.graph.node(step.node);
      if (!step.kernel->library.empty()) expected[node.name] = node.op;
    }
    ASSERT_GT(expected.size(), 2);
    if (libraries == FakeLibraries::kServe) expected.clear();
    EXPECT_EQ(session->fallbacks().size(), expected.size()) << "before the first step";
    for (int i = 0; i < 3; ++i) ASSERT_TRUE(network.Step(*session).ok());

    std::map<std::string, std::string> found;
    for (const Fallback& one : session->fallbacks()) found[one.node] = one.op;
    EXPECT_EQ(found, expected);
    EXPECT_EQ(session->fallbacks().size(), expected.size()) << "each once";
    Json json;
    json.Object();
    WriteFallbacks(session->fallbacks(), json);
    json.End();
    EXPECT_THAT(json.text(), HasSubstr(absl::StrCat("\"fallbacks\": ", expected.size(), ",")));
    EXPECT_EQ(lines.empty(), expected.empty());
    const std::string said = absl::StrJoin(lines, "\n");
    for (const Fallback& one : session->fallbacks()) {
      EXPECT_THAT(said, HasSubstr("our own kernel serves in place of " + one.library + "'s, more slowly, for "));
      EXPECT_EQ(one.instead, "own");
      EXPECT_THAT(one.why, HasSubstr(libraries == FakeLibraries::kMissing ? "not there" : " failed: "));
      if (libraries == FakeLibraries::kRefuse) {
        EXPECT_THAT(said, HasSubstr(absl::StrCat(one.op, " \"")));
        EXPECT_THAT(said, HasSubstr(absl::StrCat("\"", one.node, "\"")));
      }
    }
    if (libraries == FakeLibraries::kMissing) {
      EXPECT_LE(lines.size(), 2) << "one for each library";
    }
  }
}

// An algorithm that the library itself had listed first was to be the fastest.
TEST_P(CudaLibraries, ThatTakeAnotherAlgorithmThanTheyChoseAreNamedAndCounted) {
  for (const ExecutorKind engine : {ExecutorKind::kReplay, ExecutorKind::kSerial, ExecutorKind::kDynamic}) {
    const std::unique_ptr<FakeCuda> fake = NewFake(FakeLibraries::kServeOthers);
    std::vector<std::string> lines;
    const Network network =
        Of({.streams = 2, .engine = engine, .fallbacks = [&](const std::string& line) { lines.push_back(line); }});
    const std::unique_ptr<Session> session = network.Begin(*fake).value();
    std::vector<std::string> expected;
    const Compiled& compiled = session->compiled();
    for (const Step& step : compiled.executable.steps) {
      const Node& node = compiled.graph.node(step.node);
      if (step.kernel->name == "cublaslt" || step.kernel->name == "cudnn") expected.push_back(node.name);
    }
    ASSERT_GT(expected.size(), 2u);
    EXPECT_EQ(session->fallbacks().size(), 0u) << "it shows as the algorithm is launched first";
    for (int i = 0; i < 3; ++i) ASSERT_TRUE(network.Step(*session).ok());

    std::vector<std::string> found;
    for (const Fallback& one : session->fallbacks()) {
      found.push_back(one.node);
      EXPECT_EQ(one.instead, kAnotherAlgorithm);
      EXPECT_THAT(one.why, HasSubstr(" failed: "));
      EXPECT_THAT(absl::StrJoin(lines, "\n"), HasSubstr(absl::StrCat("another of ", one.library,
                                                                     "'s algorithms serves in "
                                                                     "place of ",
                                                                     one.library, "'s first choice for ")));
    }
    EXPECT_THAT(found, testing::UnorderedElementsAreArray(expected)) << "each once";
  }
  const std::unique_ptr<FakeCuda> fake = NewFake(FakeLibraries::kServeOthers);
  const Network network = Of({.strict_kernels = true});
  const std::unique_ptr<Session> session = network.Begin(*fake).value();
  const absl::Status strict = network.Step(*session);
  EXPECT_EQ(strict.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(strict.message()), AllOf(HasSubstr("algorithms would"), HasSubstr("--strict-kernels")));
}

// An engine for the convolution alone, and a sweep of ours after it, is no fallback.
TEST_P(CudaLibraries, ThatAddNoBiasServeAllTheSame) {
  const std::unique_ptr<FakeCuda> fake = NewFake(FakeLibraries::kServeUnfused);
  const Network network = Of({.strict_kernels = true});
  const std::unique_ptr<Session> session = network.Begin(*fake).value();
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(network.Step(*session).ok());
  EXPECT_EQ(session->fallbacks().size(), 0u);
}

TEST_P(CudaLibraries, ThatDoNotServeANodeAreAnErrorWhereKernelsAreStrict) {
  for (const FakeLibraries libraries : {FakeLibraries::kRefuse, FakeLibraries::kMissing, FakeLibraries::kServe}) {
    const std::unique_ptr<FakeCuda> fake = NewFake(libraries);
    const absl::StatusOr<std::unique_ptr<Session>> session = Of({.strict_kernels = true}).Begin(*fake);
    EXPECT_EQ(session.ok(), libraries == FakeLibraries::kServe);
    if (session.ok()) continue;
    EXPECT_EQ(session.status().code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_THAT(std::string(session.status().message()), AllOf(HasSubstr(GetParam()), HasSubstr("--strict-kernels")));
  }
}

INSTANTIATE_TEST_SUITE_P(Networks, CudaLibraries,
                         testing::Values("tests/data/tiny.pbtxt", "tests/data/tiny_conv.pbtxt"),
                         [](const auto& info) { return "network" + std::to_string(info.index); });

}  // namespace
}  // namespace snug::core
