// Tests which Steps run in one launch, and that nothing else changes by it.
#include "engine/compile/schedule/launch_groups.h"

#include <absl/strings/str_cat.h>
#include <absl/strings/str_join.h>
#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>

#include "engine/compile/schedule/streams.h"
#include "ops/kit/cuda/together.h"
#include "proto/network.pb.h"
#include "tests/cuda/emulation/emulation.h"
#include "tests/cuda/fake_cuda.h"
#include "tests/cuda/networks.h"

namespace snug::core {
namespace {

using testing::ElementsAre;
using Launches = std::vector<LaunchGroup>;

std::shared_ptr<const KernelRow> RowThatRuns(TogetherFn together) {
  return std::make_shared<const KernelRow>(KernelRow{.name = "own", .together = std::move(together)});
}
absl::Status RunsTogether(absl::Span<const KernelContext>) { return absl::OkStatus(); }
const std::shared_ptr<const KernelRow> kOneKernel = RowThatRuns(RunsTogether),
                                       kAnotherKernel = RowThatRuns(RunsTogether), kAloneKernel = RowThatRuns(nullptr);

Access Reads(int64_t begin, int64_t end) { return {{1, begin, end}, false}; }
Access Writes(int64_t begin, int64_t end) { return {{1, begin, end}, true}; }

Step StepOf(const std::shared_ptr<const KernelRow>& kernel, std::vector<Access> accesses, int64_t elements = 1,
            DType dtype = DType::kFloat32) {
  Step step{.kernel = kernel, .accesses = std::move(accesses)};
  step.types.inputs = {{.dtype = dtype, .shape = {elements}}};
  step.types.present = {true};
  return step;
}

std::vector<std::vector<size_t>> OnOneStream(const std::vector<Step>& steps) {
  std::vector<std::vector<size_t>> launches;
  for (LaunchGroup& group : GroupLaunches(steps, {.stream_of = std::vector<int32_t>(steps.size(), 0)})) {
    launches.push_back(std::move(group.steps));
  }
  return launches;
}

TEST(LaunchGroups, AreOfStepsWhoseBytesAreLeftAlone) {
  const std::vector<std::vector<size_t>> launches = OnOneStream({
      StepOf(kAloneKernel, {Writes(0, 8)}),
      StepOf(kOneKernel, {Reads(0, 8), Writes(100, 108)}),
      StepOf(kAloneKernel, {Writes(8, 16)}),
      StepOf(kOneKernel, {Reads(8, 16), Writes(108, 116)}),
      StepOf(kAloneKernel, {Writes(16, 24)}),
  });
  EXPECT_THAT(launches, ElementsAre(ElementsAre(0), ElementsAre(2), ElementsAre(4), ElementsAre(1, 3)));
}

TEST(LaunchGroups, ComeBeforeWhatWantsTheirBytes) {
  const std::vector<std::vector<size_t>> launches = OnOneStream({
      StepOf(kOneKernel, {Reads(0, 8), Writes(100, 108)}), StepOf(kOneKernel, {Reads(8, 16), Writes(108, 116)}),
      StepOf(kAloneKernel, {Writes(12, 20)}),  // writes over the gradient of the second
      StepOf(kOneKernel, {Reads(12, 20), Writes(116, 124)}),
      StepOf(kAloneKernel, {Reads(116, 124)}),  // reads the third's parameter
  });
  EXPECT_THAT(launches, ElementsAre(ElementsAre(0, 1), ElementsAre(2), ElementsAre(3), ElementsAre(4)));
}

TEST(LaunchGroups, AreOfOneFunctionAndOneType) {
  const std::vector<std::vector<size_t>> launches = OnOneStream({
      StepOf(kOneKernel, {Writes(0, 8)}), StepOf(kAnotherKernel, {Writes(8, 16)}),
      StepOf(kOneKernel, {Writes(16, 24)}, 1, DType::kBFloat16), StepOf(kOneKernel, {Writes(24, 32)}),
      StepOf(kOneKernel, {Reads(0, 8), Writes(32, 40)}),  // has to come after the first
  });
  EXPECT_THAT(launches, ElementsAre(ElementsAre(0, 3), ElementsAre(1), ElementsAre(2), ElementsAre(4)));
}

TEST(LaunchGroups, AreOfSmallOnesAndHaveTheirMost) {
  std::vector<Step> steps;
  for (int i = 0; i <= kMostTogether; ++i) steps.push_back(StepOf(kOneKernel, {Writes(8 * i, 8 * i + 8)}));
  steps.push_back(StepOf(kOneKernel, {Writes(8000, 8008)}, int64_t{1} << 20));
  const std::vector<std::vector<size_t>> launches = OnOneStream(steps);
  ASSERT_EQ(launches.size(), 3U);
  EXPECT_THAT(launches[0], ElementsAre(kMostTogether + 1));
  EXPECT_EQ(launches[1].size(), static_cast<size_t>(kMostTogether));
}

std::string ToString(const Launches& launches) {
  return absl::StrJoin(launches, " ", [](std::string* out, const LaunchGroup& group) {
    absl::StrAppend(out, group.only_waits ? "before:" : "", absl::StrJoin(group.steps, "+"));
  });
}

TEST(LaunchGroups, RunBeforeWhatAnotherStreamWaitsFor) {
  const std::vector<Step> steps = {
      StepOf(kOneKernel, {Reads(0, 8), Writes(100, 108)}),
      StepOf(kAloneKernel, {Writes(8, 16)}),
      StepOf(kOneKernel, {Reads(8, 16), Writes(108, 116)}),
      StepOf(kAloneKernel, {Writes(0, 8)}),  // on the other stream, when the second is done, and with it the first
      StepOf(kOneKernel, {Writes(200, 208)}),
      StepOf(kOneKernel, {Reads(0, 8), Writes(208, 216)}),  // waits for the other stream
  };
  const Launches launches = GroupLaunches(steps, {.stream_of = {0, 0, 0, 1, 1, 0}, .waits = {{1, 3}, {3, 5}}});
  EXPECT_EQ(ToString(launches), "0 1 3 before:5 2+5 4");
}

std::vector<Step> RandomSteps(std::mt19937_64& random, int count) {
  const auto below = [&](int64_t n) { return static_cast<int64_t>(random() % static_cast<uint64_t>(n)); };
  std::vector<Step> steps;
  for (int i = 0; i < count; ++i) {
    std::vector<Access> accesses;
    for (int a = 0; a < 3; ++a) {
      const int64_t begin = below(400);
      accesses.push_back({{1, begin, begin + 1 + below(12)}, below(2) == 0});
    }
    const int64_t kind = below(3);
    steps.push_back(StepOf(kind == 0 ? kAloneKernel : kind == 1 ? kOneKernel : kAnotherKernel, std::move(accesses)));
  }
  return steps;
}

bool Conflict(const Step& a, const Step& b) {
  bool conflict = false;
  for (const Access& x : a.accesses) {
    for (const Access& y : b.accesses) conflict |= Conflicts(x, y);
  }
  return conflict;
}

// Says which launches are done when each launch begins: those before it on its stream, and what its Steps wait for. A
// Step that is waited for must have been asked for before.
std::vector<std::set<size_t>> DoneBefore(const Launches& launches, const Schedule& schedule) {
  std::map<size_t, size_t> place;
  std::map<int32_t, std::set<size_t>> passed;  // by stream
  std::set<size_t> has_waited;
  std::vector<std::set<size_t>> done(launches.size());
  for (size_t l = 0; l < launches.size(); ++l) {
    const std::vector<size_t>& steps = launches[l].steps;
    std::set<size_t>& stream = passed[schedule.stream_of[steps[0]]];
    for (const auto& [a, b] : schedule.waits) {
      if (static_cast<size_t>(b) != steps[0] || steps.size() > 1 || has_waited.contains(steps[0])) continue;
      const auto asked = place.find(static_cast<size_t>(a));
      if (asked == place.end()) {
        ADD_FAILURE() << "Step " << b << " waits for " << a << ", which comes later";
        continue;
      }
      stream.insert(asked->second);
      stream.insert(done[asked->second].begin(), done[asked->second].end());
    }
    if (launches[l].only_waits) {
      has_waited.insert(steps[0]);
      continue;
    }
    done[l] = stream;
    for (const size_t i : steps) {
      EXPECT_EQ(schedule.stream_of[i], schedule.stream_of[steps[0]]);
      EXPECT_TRUE(place.emplace(i, l).second);
    }
    stream.insert(l);
  }
  return done;
}

// Of every pair that conflicts the first is done when the second begins, and no Step is lost.
TEST(LaunchGroups, KeepTheSequenceOfWhatConflicts) {
  int64_t together = 0;
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    std::mt19937_64 random(seed);
    const std::vector<Step> steps = RandomSteps(random, 60);
    const int streams = 1 + static_cast<int>(seed % 3);
    std::vector<std::vector<Access>> accesses;
    std::vector<int32_t> stream_of;
    for (const Step& step : steps) {
      accesses.push_back(step.accesses);
      stream_of.push_back(static_cast<int32_t>(random() % static_cast<uint64_t>(streams)));
    }
    const Schedule schedule = ScheduleStreams(accesses, stream_of, streams);
    const Launches launches = GroupLaunches(steps, schedule);
    const std::vector<std::set<size_t>> done = DoneBefore(launches, schedule);
    std::vector<size_t> place(steps.size(), SIZE_MAX);
    for (size_t l = 0; l < launches.size(); ++l) {
      if (launches[l].only_waits) continue;
      for (const size_t i : launches[l].steps) place[i] = l;
      together += static_cast<int64_t>(launches[l].steps.size()) - 1;
    }
    for (size_t b = 0; b < steps.size(); ++b) {
      ASSERT_NE(place[b], SIZE_MAX);
      for (size_t a = 0; a < b; ++a) {
        if (Conflict(steps[a], steps[b])) {
          EXPECT_TRUE(done[place[b]].contains(place[a])) << "seed " << seed << ": " << a << ", " << b;
        }
      }
    }
  }
  EXPECT_GT(together, 300);
}

TEST(Together, ABlockWorksForOneMember) {
  struct Member {
    int64_t n;
  };
  Together<Member, 4> all;
  for (const int64_t n : {1, kCudaThreads + 1, 3 * kCudaThreads}) all.Add({n});
  std::vector<int> members;
  for (int32_t block = 0; block < all.first_block[all.count]; ++block) {
    members.push_back(all.At(static_cast<unsigned>(block)));
  }
  EXPECT_THAT(members, ElementsAre(0, 1, 1, 2, 2, 2));
}

// Trains a network serially, and as it is replayed.
struct BothWays {
  std::vector<Result> results;
  std::vector<int64_t> launches;
};
BothWays TrainBothWays(const LoadedNetwork& loaded, int steps, How how) {
  BothWays both;
  how.graph = false;
  for (const ExecutorKind engine : {ExecutorKind::kSerial, ExecutorKind::kReplay}) {
    how.engine = engine;
    cuda::FakeCuda fake({.kernels = cuda::emulation::BindLaunch});
    std::vector<Compiled> all;
    all.push_back(CompileForCuda(loaded, how).value());
    const auto session = NewSession(std::move(all), how, cuda::CudaDevice::Open(fake.api(), 0).value()).value();
    fake.ClearCalls();
    both.results.push_back(Train(*session, loaded, steps).value());
    both.launches.push_back(fake.Count("cudaLaunchKernel"));
  }
  return both;
}

// In a whole network without sharing, where nobody wants the gradients' bytes, all updates are one launch, or all that
// move averages.
class UpdatesTogether : public testing::TestWithParam<const char*> {};

TEST_P(UpdatesTogether, AreOneLaunchWithTheSameBits) {
  constexpr int kSteps = 3, kParameters = 5;
  LoadedNetwork loaded = LoadModel("tests/data/tiny_conv.pbtxt").value();
  ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(GetParam(), loaded.network.mutable_optimizer()));
  const auto [results, launches] = TrainBothWays(loaded, kSteps, {.strategy = "none"});
  EXPECT_TRUE(results[0] == results[1]);
  // Averages are ordered right behind the updates that they read: then these run one by one, and the averages wait for
  // each other.
  EXPECT_EQ(launches[0] - launches[1], kSteps * (kParameters - 1));
}

// On several streams those of one stream run together where nobody waits for them.
TEST(LaunchGroups, OfSeveralStreamsHaveTheSameBits) {
  const LoadedNetwork loaded = LoadModel("tests/data/tiny_conv.pbtxt").value();
  const auto [results, launches] = TrainBothWays(loaded, /*steps=*/3, {.strategy = "none", .streams = 2});
  EXPECT_TRUE(results[0] == results[1]);
  EXPECT_LT(launches[1], launches[0]);
}

// How many nodes of an op there are in a step, and in how many launches they are asked for. Casts are those of
// parameters.
struct Asked {
  int64_t nodes = 0, launches = 0;
};
std::map<std::string, Asked> AskedByOp(const Compiled& compiled) {
  std::map<std::string, Asked> asked;
  const std::vector<Step>& steps = compiled.executable.steps;
  for (const LaunchGroup& group : GroupLaunches(steps, compiled.executable.schedule)) {
    if (group.only_waits) continue;
    const Node& first = compiled.graph.node(steps[group.steps[0]].node);
    if (first.op == "cast" && !compiled.graph.value(first.inputs[0]).variable.valid()) continue;
    asked[first.op].nodes += static_cast<int64_t>(group.steps.size());
    ++asked[first.op].launches;
  }
  return asked;
}

// Running statistics, and parameters that are rounded to bfloat16: where all bytes are apart each kind is one launch,
// and where they are shared the bits are the same.
TEST(LaunchGroups, OfStatisticsAndCastsHaveTheSameBits) {
  constexpr int kSteps = 3;
  const LoadedNetwork loaded = LoadModel("tests/data/conv_zoo.pbtxt").value();
  How how{.strategy = "none", .precision = DType::kBFloat16};
  how.disabled_passes = {"fuse_elementwise"};  // its kernels would need NVRTC
  std::map<std::string, Asked> asked = AskedByOp(CompileForCuda(loaded, how).value());
  EXPECT_EQ(asked["batch_norm_update"].nodes, 2);
  EXPECT_EQ(asked["batch_norm_update"].launches, 1);
  EXPECT_EQ(asked["cast"].nodes, 11);
  EXPECT_EQ(asked["cast"].launches, 1);
  const auto [results, launches] = TrainBothWays(loaded, kSteps, how);
  EXPECT_TRUE(results[0] == results[1]);
  int64_t saved = 0;
  for (const auto& [op, of_op] : asked) saved += of_op.nodes - of_op.launches;
  EXPECT_EQ(launches[0] - launches[1], kSteps * saved);
  how.strategy = "best";
  const BothWays shared = TrainBothWays(loaded, kSteps, how);
  EXPECT_TRUE(shared.results[0] == results[0]);
  EXPECT_TRUE(shared.results[1] == results[0]);
  EXPECT_LT(shared.launches[1], shared.launches[0]);
}

// A step whose ops are timed asks for each update by itself, so it has not loaded the kernels that the graph records.
TEST(LaunchGroups, AreLaunchedBeforeAGraphRecordsThem) {
  const LoadedNetwork loaded = LoadModel("tests/data/tiny_conv.pbtxt").value();
  cuda::FakeCuda fake({.kernels = cuda::emulation::BindLaunch});
  std::vector<Compiled> all;
  all.push_back(CompileForCuda(loaded, {.strategy = "none"}).value());
  const auto session = NewSession(std::move(all), {}, cuda::CudaDevice::Open(fake.api(), 0).value()).value();
  std::vector<StepTime> times(session->compiled().executable.steps.size());
  session->executor().SetTimes(times.data());
  ASSERT_TRUE(Train(*session, loaded, 1).ok());
  session->executor().SetTimes(nullptr);
  const absl::StatusOr<Result> result = Train(*session, loaded, 3);
  EXPECT_TRUE(result.ok()) << result.status();
  EXPECT_GT(fake.Count("cuGraphLaunch"), 0);
}

// This holds under the plans that users get, too: gradients of small parameters are moved to where they can wait, and
// casts come sooner. Of GPT-2's parameters 50 are large, and join none.
TEST(LaunchGroups, OfModelsLeaveFewSmallNodesAlone) {
  const struct {
    const char* path;
    int64_t batch;
    Asked updates, statistics, casts;
    DType precision = DType::kFloat32;
    int streams = 1;
  } models[] = {{"models/resnet50.pbtxt", 32, {161, 30}, {53, 2}, {0, 0}},
                {"models/resnet50.pbtxt", 32, {161, 30}, {53, 2}, {55, 36}, DType::kBFloat16},
                {"models/mobilenet_v2.pbtxt", 32, {158, 12}, {52, 2}, {0, 0}},
                {"models/gpt2.pbtxt", 2, {148, 60}, {0, 0}, {0, 0}},
                {"models/gpt2.pbtxt", 2, {148, 60}, {0, 0}, {98, 52}, DType::kBFloat16},
                {"models/resnet50.pbtxt", 32, {161, 70}, {53, 30}, {0, 0}, DType::kFloat32, 2},
                {"models/gpt2.pbtxt", 2, {148, 60}, {0, 0}, {98, 98}, DType::kBFloat16, 2}};
  for (const auto& model : models) {
    SCOPED_TRACE(&model - models);
    const LoadedNetwork loaded = LoadModel(model.path).value();
    CompileOptions options{.device = {Device::Kind::kCuda}, .batch = model.batch, .threads = 1};
    options.precision = model.precision;
    options.memory.streams = model.streams;
    std::map<std::string, Asked> asked =
        AskedByOp(Compile(loaded.network, loaded.source_map, OpRegistry::Builtin(), options).value());
    const std::pair<const char*, Asked> expected[] = {
        {"momentum_update", model.updates}, {"batch_norm_update", model.statistics}, {"cast", model.casts}};
    for (const auto& [op, most] : expected) {
      EXPECT_EQ(asked[op].nodes, most.nodes) << op;
      EXPECT_LE(asked[op].launches, most.launches) << op;
      RecordProperty(absl::StrCat(model.path, " ", op),
                     absl::StrCat(asked[op].nodes, " nodes in ", asked[op].launches, " launches"));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Optimizers, UpdatesTogether,
                         testing::Values("sgd {}", "sgd { momentum: 0.9 nesterov: true }", "adam {}", "rmsprop {}",
                                         "rmsprop { momentum: 0.9 }", "adagrad { lr_decay: 0.1 }", "lion {}",
                                         "average { decay: 0.5 } sgd {}"));

}  // namespace
}  // namespace snug::core
