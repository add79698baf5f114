// Training without a plan: the same bits as the serial run where every value has its own bytes, and the bytes that were
// predicted.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "memory/allocator/host_source.h"
#include "memory/in_place.h"
#include "memory/share/pool.h"
#include "tests/memory/allocator/doubles.h"
#include "tests/run/train_util.h"
#include "tests/testing/kernel_of.h"

namespace snug::core {
namespace {

using testing::HasSubstr;

struct DynamicRun {
  std::string name;
  DynamicMemoryOptions options;
  ExecutorKind engine = ExecutorKind::kSerial;
  int streams = 1;
  int64_t memory_limit = 0;
};

DynamicRun WithLimit(int64_t bytes) {
  DynamicRun how;
  how.memory_limit = bytes;
  return how;
}

struct Result {
  std::vector<double> losses;
  std::vector<std::byte> state;
  bool operator==(const Result&) const = default;
};

absl::StatusOr<std::unique_ptr<Session>> PlanAndFeed(Compiled compiled, const MemoryOptions& memory,
                                                     ExecutorKind engine, memory::Places* places = nullptr) {
  const absl::Status planned = PlanAndLower(compiled, memory);
  if (!planned.ok()) return planned;
  absl::StatusOr<std::unique_ptr<Session>> session =
      Session::Create(std::move(compiled), {.seed = 3, .engine = engine, .places = places});
  if (!session.ok()) return session.status();
  const absl::Status fed = FeedRandom(**session, OpRegistry::Builtin(), 3);
  if (!fed.ok()) return fed;
  return session;
}

MemoryOptions MemoryOf(const DynamicRun& how) {
  return {.strategy = "dynamic", .streams = how.streams, .memory_limit = how.memory_limit, .dynamic = how.options};
}

absl::StatusOr<std::unique_ptr<Session>> MakeDynamic(const LoadedNetwork& loaded, int64_t batch, const DynamicRun& how,
                                                     memory::Places* places = nullptr, bool keep_inputs = true) {
  CompileOptions options{.batch = batch, .threads = 1, .keep_inputs = keep_inputs, .memory = MemoryOf(how)};
  absl::StatusOr<Compiled> compiled = Compile(loaded.network, loaded.source_map, OpRegistry::Builtin(), options);
  if (!compiled.ok()) return compiled.status();
  return PlanAndFeed(*std::move(compiled), options.memory, how.engine, places);
}

Result TrainOn(Session& session, int steps) {
  Result result{.losses = Losses(session, steps)};
  result.state.assign(session.state_data(), session.state_data() + session.state_bytes());
  return result;
}

// Up to the plan: compiled once for all runs.
Compiled CompileNet(const LoadedNetwork& loaded, int64_t batch) {
  absl::StatusOr<Compiled> compiled = CompileGraph(loaded.network, loaded.source_map, OpRegistry::Builtin(),
                                                   {.batch = batch, .threads = 1, .keep_inputs = true});
  EXPECT_TRUE(compiled.ok()) << compiled.status().message();
  return *std::move(compiled);
}

Result UnsharedTruth(const Compiled& compiled, int steps) {
  const auto session = PlanAndFeed(compiled, {.strategy = "none"}, ExecutorKind::kSerial);
  EXPECT_TRUE(session.ok()) << session.status().message();
  return TrainOn(**session, steps);
}

std::vector<std::pair<std::string, memory::AllocatorOptions>> Allocators() {
  return {{"auto_growth", {.allocator = "auto_growth"}},
          {"auto_growth chunks", {.allocator = "auto_growth", .auto_growth_chunk_mb = 16}},
          {"prealloc", {.allocator = "prealloc", .initial_mb = 100, .reallocate_mb = 50}},
          {"prealloc share", {.allocator = "prealloc", .fraction_of_device_memory = 0.05}},
          {"buddy", {.allocator = "buddy", .buddy_initial_mb = 8, .buddy_max_pool_mb = 4}},
          {"system", {.allocator = "system"}}};
}

std::vector<std::pair<std::string, memory::GarbageOptions>> Collectors() {
  return {{"at once", {}},
          {"never", {.gc_threshold_gb = -1}},
          {"in batches", {.gc_threshold_gb = 1e-3}},
          {"the large ones", {.gc_fraction = 0.5}},
          {"none of them", {.gc_fraction = 0}},
          {"after the stream", {.gc_fast = false}}};
}

// Every allocator and every collector, not every pair. `few`: for networks that take long.
std::vector<DynamicRun> SerialRuns(bool few) {
  if (few)
    return {{"auto_growth", {}},
            {"buddy, in batches, not in place",
             {.allocator = {.allocator = "buddy"}, .garbage = {.gc_threshold_gb = 1e-3}, .inplace = false}}};
  std::vector<DynamicRun> runs;
  for (const bool inplace : {true, false}) {
    const std::string suffix = inplace ? "" : ", not in place";
    for (const auto& [name, allocator] : Allocators()) {
      runs.push_back({name + suffix, {.allocator = allocator, .inplace = inplace}});
    }
    for (const auto& [name, garbage] : Collectors()) {
      runs.push_back({name + suffix, {.garbage = garbage, .inplace = inplace}});
    }
  }
  return runs;
}

std::vector<DynamicRun> ParallelRuns(bool few) {
  if (few)
    return {{"1 worker", {}, ExecutorKind::kDynamic, 1},
            {"2 workers", {}, ExecutorKind::kDynamic, 2},
            {"4 workers, not in place", {.inplace = false}, ExecutorKind::kDynamic, 4}};
  std::vector<DynamicRun> runs;
  for (const int streams : {1, 2, 4}) {
    for (const bool inplace : {true, false}) {
      const std::string suffix = std::to_string(streams) + (inplace ? " workers" : " workers, not in place");
      runs.push_back({suffix, {.inplace = inplace}, ExecutorKind::kDynamic, streams});
      runs.push_back({"buddy, in batches, " + suffix,
                      {.allocator = {.allocator = "buddy", .buddy_initial_mb = 8, .buddy_max_pool_mb = 4},
                       .garbage = {.gc_threshold_gb = 1e-3},
                       .inplace = inplace},
                      ExecutorKind::kDynamic,
                      streams});
      runs.push_back({"system, the large ones, " + suffix,
                      {.allocator = {.allocator = "system"}, .garbage = {.gc_fraction = 0.5}, .inplace = inplace},
                      ExecutorKind::kDynamic,
                      streams});
    }
  }
  return runs;
}

struct DynamicNetwork {
  const char* name;
  int64_t batch;
  int64_t image;  // 0: the file's size
  bool few = false;
};

class DynamicMemoryOf : public testing::TestWithParam<DynamicNetwork> {};

TEST_P(DynamicMemoryOf, OneAfterTheOtherTrainsTheSameInThePredictedBytes) {
  const absl::StatusOr<LoadedNetwork> loaded = LoadModel(GetParam().name, GetParam().image);
  ASSERT_TRUE(loaded.ok()) << loaded.status().message();
  const Compiled compiled = CompileNet(*loaded, GetParam().batch);
  const Result truth = UnsharedTruth(compiled, 3);
  for (const DynamicRun& how : SerialRuns(GetParam().few)) {
    SCOPED_TRACE(how.name);
    const auto session = PlanAndFeed(compiled, MemoryOf(how), how.engine);
    ASSERT_TRUE(session.ok()) << session.status().message();
    EXPECT_TRUE(TrainOn(**session, 3) == truth);
    const memory::AllocatorStatistics found = (*session)->dynamic_statistics();
    const DynamicMemory& dynamic = *(*session)->compiled().executable.memory.dynamic;
    EXPECT_EQ(found.peak_used_bytes, dynamic.predicted.peak_used_bytes);
    // With some collectors more is reserved after the third step, a little. A share of what is free is another number
    // each time.
    if (how.name.find("share") == std::string::npos) {
      const auto three = memory::Simulate(EventsOf(dynamic, 3), how.options.allocator, {});
      ASSERT_TRUE(three.ok()) << three.status().message();
      EXPECT_EQ(found.peak_reserved_bytes, three->peak_reserved_bytes);
      EXPECT_EQ(found.system_allocations, three->system_allocations);
      EXPECT_LE(found.peak_reserved_bytes, dynamic.predicted.peak_reserved_bytes);
    }
    int64_t held = 0;
    for (const DynamicMemory::ValueBlock& block : dynamic.blocks) held += block.held ? block.bytes : 0;
    EXPECT_EQ(found.used_bytes, held) << "only what the user holds lasts from step to step";
  }
}

TEST_P(DynamicMemoryOf, AutoGrowthAsksTheSystemForNothingAfterTwoSteps) {
  const absl::StatusOr<LoadedNetwork> loaded = LoadModel(GetParam().name, GetParam().image);
  ASSERT_TRUE(loaded.ok()) << loaded.status().message();
  Compiled compiled = CompileNet(*loaded, GetParam().batch);
  for (const bool inplace : {true, false}) {
    ASSERT_TRUE(PlanAndLower(compiled, MemoryOf({.options = {.inplace = inplace}})).ok());
    const DynamicMemory& dynamic = *compiled.executable.memory.dynamic;
    const auto two = memory::Simulate(EventsOf(dynamic, 2), {}, {});
    const auto twenty = memory::Simulate(EventsOf(dynamic, 20), {}, {});
    ASSERT_TRUE(two.ok() && twenty.ok());
    EXPECT_EQ(twenty->system_allocations, two->system_allocations);
    EXPECT_EQ(twenty->system_frees, 0);
  }
}

TEST_P(DynamicMemoryOf, OnWorkersTrainsTheSame) {
  const absl::StatusOr<LoadedNetwork> loaded = LoadModel(GetParam().name, GetParam().image);
  ASSERT_TRUE(loaded.ok()) << loaded.status().message();
  const Compiled compiled = CompileNet(*loaded, GetParam().batch);
  const Result truth = UnsharedTruth(compiled, 3);
  for (const DynamicRun& how : ParallelRuns(GetParam().few)) {
    SCOPED_TRACE(how.name);
    const auto session = PlanAndFeed(compiled, MemoryOf(how), how.engine);
    ASSERT_TRUE(session.ok()) << session.status().message();
    EXPECT_TRUE(TrainOn(**session, 3) == truth);
    const memory::AllocatorStatistics found = (*session)->dynamic_statistics();
    const DynamicMemory& dynamic = *(*session)->compiled().executable.memory.dynamic;
    int64_t held = 0, all = 0;
    for (const DynamicMemory::ValueBlock& block : dynamic.blocks) {
      held += block.held ? block.bytes : 0;
      all += block.bytes;
    }
    EXPECT_EQ(found.used_bytes, held);
    EXPECT_LE(found.peak_used_bytes, all);
    if (how.streams == 1) {
      EXPECT_EQ(found.peak_used_bytes, dynamic.predicted.peak_used_bytes) << "one worker keeps to the Order";
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Run, DynamicMemoryOf,
                         testing::Values(DynamicNetwork{"mlp", 16, 0}, DynamicNetwork{"lenet", 4, 0},
                                         DynamicNetwork{"transformer", 2, 0}, DynamicNetwork{"resnet18", 2, 32, true}),
                         [](const auto& info) { return std::string(info.param.name); });

class DynamicMemoryTest : public testing::Test {
 protected:
  static LoadedNetwork Lenet() {
    absl::StatusOr<LoadedNetwork> loaded = LoadModel("lenet");
    EXPECT_TRUE(loaded.ok()) << loaded.status().message();
    return *std::move(loaded);
  }
};

// A place whose source writes down what it is asked for.
struct BookedPlace {
  explicit BookedPlace(const memory::AllocatorOptions& options) : places(options) {
    places.Support(memory::PlaceKind::kCpu, [this](const memory::Place&) -> absl::StatusOr<memory::Places::Device> {
      auto booked = std::make_unique<memory::BookedSource>(std::make_unique<memory::HostSource>(256));
      source = booked.get();
      return memory::Places::Device{std::move(booked), nullptr};
    });
  }
  memory::Places places;
  memory::BookedSource* source = nullptr;
};

TEST_F(DynamicMemoryTest, FromTheThirdStepOnNothingIsAskedOfTheSystem) {
  for (const bool inplace : {true, false}) {
    BookedPlace place({});
    const auto session = MakeDynamic(Lenet(), 8, {.options = {.inplace = inplace}}, &place.places);
    ASSERT_TRUE(session.ok()) << session.status().message();
    for (int i = 0; i < 2; ++i) ASSERT_TRUE((*session)->Run().ok());
    const size_t asked = place.source->sizes().size();
    EXPECT_GT(asked, 0u);
    for (int i = 0; i < 20; ++i) ASSERT_TRUE((*session)->Run().ok());
    EXPECT_EQ(place.source->sizes().size(), asked);
    EXPECT_EQ(place.source->frees(), 0);
  }
}

// Writes down in which sequence blocks come and go: `system` asks it for each.
class SequenceSource final : public memory::MemorySource {
 public:
  memory::Place place() const override { return host_.place(); }
  int64_t alignment() const override { return host_.alignment(); }
  bool host_accessible() const override { return true; }
  int64_t available_bytes() const override { return -1; }
  absl::StatusOr<std::byte*> Allocate(int64_t bytes) override {
    absl::StatusOr<std::byte*> address = host_.Allocate(bytes);
    number_of_[*address] = taken_++;
    return address;
  }
  void Free(std::byte* address, int64_t bytes) override {
    freed_.push_back(number_of_[address]);
    host_.Free(address, bytes);
  }
  int taken() const { return taken_; }
  const std::vector<int>& freed() const { return freed_; }  // by the number of the allocation

 private:
  memory::HostSource host_{256};
  std::map<std::byte*, int> number_of_;
  std::vector<int> freed_;
  int taken_ = 0;
};

TEST_F(DynamicMemoryTest, FreesInTheSequenceInWhichTheCounterSimulationRecycles) {
  for (const bool inplace : {true, false}) {
    SCOPED_TRACE(inplace);
    memory::Places places({.allocator = "system"});
    SequenceSource* source = nullptr;
    places.Support(memory::PlaceKind::kCpu, [&](const memory::Place&) -> absl::StatusOr<memory::Places::Device> {
      auto made = std::make_unique<SequenceSource>();
      source = made.get();
      return memory::Places::Device{std::move(made), nullptr};
    });
    const DynamicRun how{.options = {.allocator = {.allocator = "system"}, .inplace = inplace}};
    const auto session = MakeDynamic(Lenet(), 4, how, &places);
    ASSERT_TRUE(session.ok()) << session.status().message();
    const int held = source->taken();
    ASSERT_TRUE((*session)->Run().ok());

    // The counter simulation, over the step's lifetimes.
    const memory::Problem& problem = (*session)->compiled().executable.memory.step.problem;
    const memory::Folded folded = memory::Fold(problem, memory::SmallerOutputs::kAlways);
    const memory::Timeline timeline(folded.problem);
    const std::vector<DynamicMemory::ValueBlock>& blocks = (*session)->compiled().executable.memory.dynamic->blocks;
    ASSERT_EQ(blocks.size(), folded.problem.buffers.size());
    std::map<int32_t, int> number_of;
    std::vector<int> expected;
    for (const int32_t block : timeline.begins) {
      if (!blocks[static_cast<size_t>(block)].held) number_of.emplace(block, held + static_cast<int>(number_of.size()));
    }
    for (const int32_t block : timeline.ends) {
      if (!blocks[static_cast<size_t>(block)].held) expected.push_back(number_of.at(block));
    }
    EXPECT_EQ(source->freed(), expected);

    // And its peak of live bytes.
    std::vector<int64_t> change(problem.buffers.size() + 3, 0);
    change.resize((*session)->compiled().executable.steps.size() + 3, 0);
    for (const memory::Buffer& buffer : folded.problem.buffers) {
      change[static_cast<size_t>(buffer.first)] += buffer.size_bytes;
      change[static_cast<size_t>(buffer.last) + 1] -= buffer.size_bytes;
    }
    int64_t live = 0, peak = 0;
    for (const int64_t delta : change) peak = std::max(peak, live += delta);
    EXPECT_EQ((*session)->dynamic_statistics().peak_used_bytes, peak);
  }
}

TEST_F(DynamicMemoryTest, WhatIsFedAndFetchedStaysWhereItIs) {
  const auto session = MakeDynamic(Lenet(), 4, {}, nullptr, /*keep_inputs=*/false);
  ASSERT_TRUE(session.ok()) << session.status().message();
  const auto loss = (*session)->Output("loss");
  ASSERT_TRUE(loss.ok());
  for (int i = 0; i < 3; ++i) ASSERT_TRUE((*session)->Run().ok()) << "an input is kept without being fed anew";
  EXPECT_EQ((*session)->Output("loss")->data, loss->data);
}

TEST_F(DynamicMemoryTest, ProgramsOfOneSessionShareTheAllocatorAndKeepTheirInputs) {
  const LoadedNetwork loaded = Lenet();
  std::vector<Compiled> programs;
  for (const int64_t batch : {8, 4}) {
    CompileOptions options{.batch = batch, .threads = 1};
    options.memory.strategy = "dynamic";
    auto compiled = Compile(loaded.network, loaded.source_map, OpRegistry::Builtin(), options);
    ASSERT_TRUE(compiled.ok()) << compiled.status().message();
    programs.push_back(*std::move(compiled));
  }
  const auto session = Session::Create(std::move(programs), {.seed = 3, .engine = ExecutorKind::kSerial});
  ASSERT_TRUE(session.ok()) << session.status().message();
  for (size_t i = 0; i < 2; ++i) {
    Program& program = (*session)->program(i);
    for (const Endpoint& input : program.compiled().executable.inputs) {
      const std::vector<double> zeros(static_cast<size_t>(input.type.shape.num_elements()), 0);
      ASSERT_TRUE(program.Feed(input.name, zeros).ok());
    }
  }
  for (size_t i = 0; i < 2; ++i) ASSERT_TRUE((*session)->Run(i).ok());
  const int64_t reserved = (*session)->dynamic_statistics().reserved_bytes;
  for (size_t i = 0; i < 2; ++i) {
    ASSERT_TRUE((*session)->Run(i).ok()) << "another program's run does not touch what was fed";
    EXPECT_TRUE((*session)->program(i).Fetch("loss").ok());
  }
  EXPECT_EQ((*session)->dynamic_statistics().reserved_bytes, reserved);
}

TEST_F(DynamicMemoryTest, ReplayAndPoisonRefuseIt) {
  const absl::Status replay = MakeDynamic(Lenet(), 4, {.engine = ExecutorKind::kReplay}).status();
  EXPECT_THAT(std::string(replay.message()), HasSubstr("engine \"replay\": expected planned memory"));
  const LoadedNetwork loaded = Lenet();
  CompileOptions options{.batch = 4, .threads = 1};
  options.memory.strategy = "dynamic";
  auto compiled = Compile(loaded.network, loaded.source_map, OpRegistry::Builtin(), options);
  ASSERT_TRUE(compiled.ok());
  const absl::Status poison =
      Session::Create(*std::move(compiled), {.engine = ExecutorKind::kSerial, .poison = true}).status();
  EXPECT_EQ(poison.message(), "poison goes by a plan: dynamic memory has none");
}

TEST_F(DynamicMemoryTest, AfterAFailedStepEverythingIsBackAndTheNextRuns) {
  const LoadedNetwork loaded = Lenet();
  for (const ExecutorKind engine : {ExecutorKind::kSerial, ExecutorKind::kDynamic}) {
    CompileOptions options{.batch = 4, .threads = 1, .keep_inputs = true};
    options.memory = {.strategy = "dynamic", .streams = 2, .dynamic = {.garbage = {.gc_threshold_gb = 1}}};
    auto compiled = Compile(loaded.network, loaded.source_map, OpRegistry::Builtin(), options);
    ASSERT_TRUE(compiled.ok());
    std::vector<Step>& steps = compiled->executable.steps;
    const size_t middle = steps.size() / 3;
    ASSERT_FALSE(steps[middle].mutates);
    steps[middle].kernel = test::KernelOf(Fails);
    const auto session = Session::Create(*std::move(compiled), {.seed = 3, .engine = engine});
    ASSERT_TRUE(session.ok()) << session.status().message();
    ASSERT_TRUE(FeedRandom(**session, OpRegistry::Builtin(), 3).ok());
    const int64_t before = (*session)->dynamic_statistics().used_bytes;
    for (int i = 0; i < 3; ++i) {
      EXPECT_THAT(std::string((*session)->Run().message()), HasSubstr("planted"));
      EXPECT_EQ((*session)->dynamic_statistics().used_bytes, before);
    }
  }
}

// The least that any allocator could do with, and what auto_growth takes.
struct Predicted {
  int64_t used, total;
};

Predicted PredictedBytes(int64_t batch) {
  const auto session = MakeDynamic(*LoadModel("lenet"), batch, {});
  EXPECT_TRUE(session.ok()) << session.status().message();
  const MemoryPlan& plan = (*session)->compiled().executable.memory;
  return {plan.state_plan.arena_bytes + plan.dynamic->predicted.peak_used_bytes, plan.total_bytes()};
}

// The number after `words` in the text.
int64_t NumberAfter(const std::string& text, const std::string& words) {
  const size_t at = text.find(words);
  EXPECT_NE(at, std::string::npos) << text;
  return at == std::string::npos ? -1 : std::atoll(text.c_str() + at + words.size());
}

TEST_F(DynamicMemoryTest, OutOfMemoryIsSaidBeforeTheFirstStepWithWhatWouldFit) {
  const int64_t limit = PredictedBytes(64).used - 1;
  const DynamicRun how = WithLimit(limit);
  const absl::Status status = MakeDynamic(Lenet(), 64, how, nullptr, /*keep_inputs=*/false).status();
  ASSERT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status.message();
  const std::string text(status.message());
  for (const char* words : {"out of memory on cpu: asked for ", "in use: ", "reserved: ", "the largest piece ",
                            "largest in use: \"", "the Variables take ", "\n  a step would fit with --batch="}) {
    EXPECT_THAT(text, HasSubstr(words));
  }
  // What there is on the machine, and what of it the user has: 64 images of 28 x 28 floats, their labels, and the two
  // numbers that are fetched, each in whole cache lines.
  EXPECT_GT(NumberAfter(text, "foretold, nothing is taken yet; free on cpu: "), limit);
  EXPECT_EQ(NumberAfter(text, "; of these the user holds "), 64 * 28 * 28 * 4 + 64 * 4 + 2 * 64);
  EXPECT_THAT(text, HasSubstr("\"image\" 200704 (fed: held by the user)"));
  // What it says would fit does, and the next batch does not.
  const int64_t batch = NumberAfter(text, "--batch=");
  EXPECT_LT(batch, 64);
  EXPECT_GT(batch, 1);
  EXPECT_TRUE(MakeDynamic(Lenet(), batch, how).ok());
  EXPECT_FALSE(MakeDynamic(Lenet(), batch + 1, how).ok());
  const int64_t enough = NumberAfter(text, "--memory-limit=");
  EXPECT_TRUE(MakeDynamic(Lenet(), 64, WithLimit(enough)).ok());
  EXPECT_THAT(text, HasSubstr("this one would fit with --memory=best: "));
  EXPECT_LE(NumberAfter(text, "--memory=best: "), limit);
}

TEST_F(DynamicMemoryTest, ALimitThatThePredictionKeepsIsKept) {
  const DynamicRun how = WithLimit(PredictedBytes(16).total);
  const auto session = MakeDynamic(Lenet(), 16, how);
  ASSERT_TRUE(session.ok()) << session.status().message();
  EXPECT_TRUE(TrainOn(**session, 3) == UnsharedTruth(CompileNet(Lenet(), 16), 3));
  EXPECT_LE((*session)->state_bytes() + (*session)->step_bytes(), how.memory_limit);
}

// What is not foretold, as the limit is that of somebody else's allocator: in the forward pass, before any update.
TEST_F(DynamicMemoryTest, OutOfMemoryInAStepNamesTheNodeAndGivesEverythingBack) {
  for (const ExecutorKind engine : {ExecutorKind::kSerial, ExecutorKind::kDynamic}) {
    const LoadedNetwork loaded = Lenet();
    memory::Places places({.memory_limit = PredictedBytes(16).used / 4, .retry_ms = 1});
    const auto session = MakeDynamic(loaded, 16, {.engine = engine, .streams = 2}, &places);
    ASSERT_TRUE(session.ok()) << session.status().message();
    const int64_t before = (*session)->dynamic_statistics().used_bytes;
    for (int i = 0; i < 2; ++i) {
      const absl::Status status = (*session)->Run();
      ASSERT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status.message();
      EXPECT_THAT(std::string(status.message()), HasSubstr("lenet.pbtxt:"));
      EXPECT_THAT(std::string(status.message()), HasSubstr("out of memory on cpu"));
      EXPECT_EQ((*session)->dynamic_statistics().used_bytes, before);
    }
  }
}

TEST_F(DynamicMemoryTest, ALimitBelowTheVariablesNamesThem) {
  const absl::Status status = MakeDynamic(Lenet(), 4, WithLimit(1000)).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(status.message()), HasSubstr("the Variables take "));
}

TEST_F(DynamicMemoryTest, WrongOptionsAreNamed) {
  const auto message = [](const DynamicMemoryOptions& options) {
    return std::string(MakeDynamic(Lenet(), 4, {.options = options}).status().message());
  };
  EXPECT_THAT(message({.allocator = {.allocator = "best_fit"}}), HasSubstr("option \"allocator\": expected"));
  EXPECT_THAT(message({.garbage = {.gc_fraction = 2}}), HasSubstr("option \"gc_fraction\": expected"));
}

}  // namespace
}  // namespace snug::core
