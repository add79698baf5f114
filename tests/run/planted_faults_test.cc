// Faults planted into the plans and Executables of real models, under every strategy: what the verifier says is what
// brute force says (executable_oracle.h), and what it accepts gives the bits of the truth when it runs.
#include <absl/strings/str_cat.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <optional>
#include <random>
#include <string>

#include "engine/base/status.h"
#include "engine/compile/memory/plan_memory.h"
#include "engine/compile/schedule/stages.h"
#include "tests/run/executable_oracle.h"
#include "tests/run/train_util.h"

namespace snug::core {
namespace {

using testing::HasSubstr;

constexpr int64_t kLine = 64;

class Planter {
 public:
  Planter(const Compiled& compiled, uint32_t seed) : faulty(compiled), random_(seed) {}

  // Each plants one fault, somewhere. False: there is no place for it here.

  bool MoveABuffer() {
    memory::Plan& plan = Plan();
    const std::optional<size_t> i = ABuffer();
    if (!i.has_value()) return false;
    const int64_t offset = plan.offsets[*i] + (Below(2) == 0 ? 1 : -1) * kLine * (1 + Below(3));
    if (offset < 0 || offset + Buffer(*i).size_bytes > plan.arena_bytes) return false;
    plan.offsets[*i] = offset;
    return Relower();
  }

  bool MoveOntoAnother() {
    memory::Plan& plan = Plan();
    const std::optional<size_t> i = ABuffer(), j = ABuffer();
    if (!i.has_value() || plan.offsets[*i] == plan.offsets[*j] ||
        plan.offsets[*j] + Buffer(*i).size_bytes > plan.arena_bytes) {
      return false;
    }
    plan.offsets[*i] = plan.offsets[*j];
    return Relower();
  }

  // The strategy is told less than there is.

  bool TakeABufferForShorter() {
    return Replan([this](memory::Problem& problem, size_t i) {
      memory::Buffer& buffer = problem.buffers[i];
      if (buffer.size_bytes <= kLine) return false;
      buffer.size_bytes -= Below(2) == 0 ? kLine : buffer.size_bytes / 2 / kLine * kLine;
      return true;
    });
  }

  bool TakeABufferForDeadTooEarly() {
    return Replan([this](memory::Problem& problem, size_t i) {
      memory::Buffer& buffer = problem.buffers[i];
      if (buffer.last == buffer.first) return false;
      buffer.last = Below(2) == 0 ? buffer.last - 1 : buffer.first;
      return true;
    });
  }

  bool TakeABufferForBornTooLate() {
    return Replan([](memory::Problem& problem, size_t i) {
      memory::Buffer& buffer = problem.buffers[i];
      if (buffer.last == buffer.first) return false;
      ++buffer.first;
      return true;
    });
  }

  // An output over an input that is read again later, or by a kernel that cannot.
  bool AllowInPlace() {
    return Replan([this](memory::Problem& problem, size_t i) {
      memory::Buffer& input = problem.buffers[i];
      std::vector<int32_t> outputs;
      for (size_t o = 0; o < problem.buffers.size(); ++o) {
        const memory::Buffer& output = problem.buffers[o];
        if (o == i || output.first <= input.first || output.first > input.last || output.size_bytes == 0) continue;
        if (output.size_bytes <= input.size_bytes) outputs.push_back(static_cast<int32_t>(o));
      }
      if (outputs.empty()) return false;
      const int32_t output = outputs[static_cast<size_t>(Below(static_cast<int64_t>(outputs.size())))];
      input.last = problem.buffers[static_cast<size_t>(output)].first;
      std::erase_if(problem.in_place, [&](const memory::InPlace& pair) {
        return pair.output == output || pair.input == static_cast<int32_t>(i);
      });
      problem.in_place.push_back({output, static_cast<int32_t>(i)});
      return true;
    });
  }

  bool SwapTwoInTheOrder() {
    memory::TaskOrder& order = faulty.executable.memory.step.order;
    const auto i = static_cast<size_t>(Below(static_cast<int64_t>(order.size()) - 1));
    std::swap(order[i], order[i + 1]);
    return faulty.executable.memory.dynamic.has_value() ? false : Relower();
  }

  // What lowering made of the plan.

  bool PointAnInputElsewhere() {
    Step& step = AStep();
    if (step.inputs.empty()) return false;
    const auto i = static_cast<size_t>(Below(static_cast<int64_t>(step.inputs.size())));
    if (step.inputs[i].offset < 0) return false;
    return PointElsewhere(step.inputs[i], step.types.inputs[i].size_bytes());
  }

  bool PointAnOutputElsewhere() {
    Step& step = AStep();
    if (step.outputs.empty()) return false;
    const auto o = static_cast<size_t>(Below(static_cast<int64_t>(step.outputs.size())));
    return PointElsewhere(step.outputs[o], step.types.outputs[o].size_bytes());
  }

  bool PointAWorkspaceElsewhere() {
    Step& step = AStep();
    const int64_t bytes = faulty.kernels[static_cast<size_t>(step.node.index)].workspace_bytes;
    return bytes > 0 && PointElsewhere(step.workspace, bytes);
  }

  bool MisalignAnOperand() {
    Step& step = AStep();
    if (step.outputs.empty() || step.types.outputs[0].size_bytes() == 0) return false;
    step.outputs[0].offset += 4;
    return true;
  }

  bool DropAWait() {
    std::vector<std::pair<int32_t, int32_t>>& waits = faulty.executable.schedule.waits;
    if (waits.empty()) return false;
    waits.erase(waits.begin() + Below(static_cast<int64_t>(waits.size())));
    return true;
  }

  bool MoveAStepToAnotherStream() {
    Schedule& schedule = faulty.executable.schedule;
    if (schedule.count() == 1) return false;
    const auto step = static_cast<int32_t>(Below(static_cast<int64_t>(schedule.stream_of.size())));
    int32_t& stream = schedule.stream_of[static_cast<size_t>(step)];
    std::vector<int32_t>& from = schedule.streams[static_cast<size_t>(stream)];
    stream = (stream + 1) % schedule.count();
    std::vector<int32_t>& to = schedule.streams[static_cast<size_t>(stream)];
    from.erase(std::find(from.begin(), from.end(), step));
    to.insert(std::upper_bound(to.begin(), to.end(), step), step);
    return true;
  }

  bool DropAnAccess() {
    Step& step = AStep();
    if (step.accesses.empty()) return false;
    step.accesses.erase(step.accesses.begin() + Below(static_cast<int64_t>(step.accesses.size())));
    return true;
  }

  bool TakeAWriteForARead() {
    Step& step = AStep();
    const auto write =
        std::find_if(step.accesses.begin(), step.accesses.end(), [](const Access& access) { return access.write; });
    if (write == step.accesses.end()) return false;
    write->write = false;
    return true;
  }

  // Of dynamic memory: the block goes before its last user has come.
  bool DropAUseOfABlock() {
    std::optional<DynamicMemory>& dynamic = faulty.executable.memory.dynamic;
    if (!dynamic.has_value()) return false;
    DynamicMemory::StepBlocks& blocks = dynamic->steps[static_cast<size_t>(Below(std::ssize(dynamic->steps)))];
    if (blocks.uses.empty()) return false;
    const auto use = blocks.uses.begin() + Below(std::ssize(blocks.uses));
    --dynamic->blocks[static_cast<size_t>(*use)].uses;
    blocks.uses.erase(use);
    return true;
  }

  // Of dynamic memory: the block is never given back.
  bool CountAUseOfABlockTooMany() {
    std::optional<DynamicMemory>& dynamic = faulty.executable.memory.dynamic;
    if (!dynamic.has_value()) return false;
    DynamicMemory::ValueBlock& block = dynamic->blocks[static_cast<size_t>(Below(std::ssize(dynamic->blocks)))];
    if (block.uses == 0) return false;
    ++block.uses;
    return true;
  }

  // Of dynamic memory: a block that another Step has taken is taken again, its bytes lost.
  bool TakeABlockTwice() {
    std::optional<DynamicMemory>& dynamic = faulty.executable.memory.dynamic;
    if (!dynamic.has_value()) return false;
    const auto at = static_cast<size_t>(Below(std::ssize(dynamic->steps)));
    const std::vector<int32_t>& takes = dynamic->steps[at].takes;
    if (takes.empty()) return false;
    const int32_t block = takes[static_cast<size_t>(Below(std::ssize(takes)))];
    const auto again = at + static_cast<size_t>(Below(std::ssize(dynamic->steps) - static_cast<int64_t>(at)));
    dynamic->steps[again].takes.push_back(block);
    return true;
  }

  Compiled faulty;
  bool relowered = false;  // the plan is another, ...
  absl::Status scheduled;  // ... and what its check by the tasks says

 private:
  int64_t Below(int64_t n) { return static_cast<int64_t>(random_() % static_cast<uint64_t>(n)); }
  memory::Plan& Plan() { return faulty.executable.memory.step.placement.plan; }
  const memory::Buffer& Buffer(size_t i) const { return faulty.executable.memory.step.problem.buffers[i]; }
  Step& AStep() { return faulty.executable.steps[static_cast<size_t>(Below(std::ssize(faulty.executable.steps)))]; }

  // With bytes. None: memory is dynamic, and there are no places to confuse.
  std::optional<size_t> ABuffer() {
    if (faulty.executable.memory.dynamic.has_value()) return std::nullopt;
    while (true) {
      const auto i = static_cast<size_t>(Below(std::ssize(Plan().offsets)));
      if (Buffer(i).size_bytes > 0) return i;
    }
  }

  // The stages behind the plan, which they take for right.
  bool Relower() {
    const int streams = faulty.executable.schedule.count();
    MemoryPlan plan = std::move(faulty.executable.memory);
    faulty.executable =
        Lower(faulty.graph, faulty.kernels, faulty.tasks, std::move(plan), faulty.bound, faulty.threads);
    scheduled = ScheduleSteps(faulty.tasks, streams, faulty.executable);
    relowered = true;
    return true;
  }

  template <class Change>
  bool Replan(const Change& change) {
    MemoryPlan& plan = faulty.executable.memory;
    const std::optional<size_t> i = ABuffer();
    memory::Problem problem = plan.step.problem;
    if (!i.has_value() || !change(problem, *i)) return false;
    const absl::string_view strategy = absl::string_view(plan.strategy).substr(0, plan.strategy.find('+'));
    const absl::StatusOr<memory::Placement> placement =
        memory::PlaceProblem(problem, strategy, {.work_limit = strategy == "olla" ? 5 : 2000});
    EXPECT_TRUE(placement.ok()) << placement.status().message();
    if (!placement.ok()) return false;
    Plan() = placement->plan;
    // A buffer taken for shorter may end behind what is then the arena's end.
    for (size_t b = 0; b < problem.buffers.size(); ++b) {
      Plan().arena_bytes = std::max(Plan().arena_bytes, Plan().offsets[b] + Buffer(b).size_bytes);
    }
    return Relower();
  }

  bool PointElsewhere(Slot& slot, int64_t bytes) {
    if (bytes == 0) return false;
    const Step& other = AStep();
    std::vector<std::pair<Slot, int64_t>> places;
    for (size_t i = 0; i < other.inputs.size(); ++i) {
      if (other.inputs[i].offset >= 0) places.emplace_back(other.inputs[i], other.types.inputs[i].size_bytes());
    }
    for (size_t o = 0; o < other.outputs.size(); ++o) {
      places.emplace_back(other.outputs[o], other.types.outputs[o].size_bytes());
    }
    std::erase_if(places, [&](const auto& place) {
      const Slot& at = place.first;
      return place.second < bytes || (at.arena == slot.arena && at.block == slot.block && at.offset == slot.offset);
    });
    if (places.empty()) return false;
    slot = places[static_cast<size_t>(Below(std::ssize(places)))].first;
    return true;
  }

  std::mt19937 random_;
};

struct KindOfFault {
  const char* name;
  bool (Planter::*plant)();
  bool exact = true;  // false: the verifier may reject more than what does harm one Step after the other
};

constexpr KindOfFault kFaults[] = {
    {"a buffer moved by cache lines", &Planter::MoveABuffer},
    {"a buffer moved onto another", &Planter::MoveOntoAnother},
    {"a buffer taken for shorter", &Planter::TakeABufferForShorter},
    {"a buffer taken for dead too early", &Planter::TakeABufferForDeadTooEarly},
    {"a buffer taken for born too late", &Planter::TakeABufferForBornTooLate},
    {"in place where it may not be", &Planter::AllowInPlace},
    {"two swapped in the order", &Planter::SwapTwoInTheOrder},
    {"an input pointed elsewhere", &Planter::PointAnInputElsewhere},
    {"an output pointed elsewhere", &Planter::PointAnOutputElsewhere},
    {"a workspace pointed elsewhere", &Planter::PointAWorkspaceElsewhere},
    {"an operand off its cache line", &Planter::MisalignAnOperand},
    {"a wait dropped", &Planter::DropAWait},
    {"a Step moved to another stream", &Planter::MoveAStepToAnotherStream},
    {"an access dropped", &Planter::DropAnAccess},
    {"a write taken for a read", &Planter::TakeAWriteForARead},
    {"a use of a block dropped", &Planter::DropAUseOfABlock, /*exact=*/false},
    {"a use of a block too many", &Planter::CountAUseOfABlockTooMany},
    {"a block taken twice", &Planter::TakeABlockTwice},
};

// What two steps by the serial engine leave behind.
std::string Bits(Compiled compiled) {
  auto session = Session::Create(std::move(compiled), {.seed = 3, .engine = ExecutorKind::kSerial});
  SNUG_CHECK_OK(session.status());
  SNUG_CHECK_OK(FeedRandom(**session, OpRegistry::Builtin(), 3));
  std::string bits;
  for (int step = 0; step < 2; ++step) {
    SNUG_CHECK_OK((*session)->Run());
    for (const Endpoint& output : (*session)->compiled().executable.outputs) {
      const Session::View view = *(*session)->Output(output.name);
      bits.append(reinterpret_cast<const char*>(view.data), static_cast<size_t>(view.type->size_bytes()));
    }
  }
  bits.append(reinterpret_cast<const char*>((*session)->state_data()), static_cast<size_t>((*session)->state_bytes()));
  return bits;
}

struct Tally {
  int planted = 0, harmful = 0, runs = 0;
};

struct FaultyNetwork {
  const char* name;
  int64_t batch = 1;
  int64_t image = 0;
  int rounds = 1;     // of each fault, by strategy and number of streams
  bool runs = false;  // what is accepted runs, too
};

class FaultsIn {
 public:
  explicit FaultsIn(const FaultyNetwork& net) : net_(net) {
    const absl::StatusOr<LoadedNetwork> loaded = LoadModel(net.name, net.image);
    SNUG_CHECK_OK(loaded.status());
    absl::StatusOr<Compiled> compiled = CompileGraph(loaded->network, loaded->source_map, OpRegistry::Builtin(),
                                                     {.batch = net.batch, .threads = 1, .keep_inputs = true});
    SNUG_CHECK_OK(compiled.status());
    compiled_ = *std::move(compiled);
    SNUG_CHECK_OK(PlanAndLower(compiled_, {.strategy = "none"}));
    tokens_ = RunOnTokens(compiled_);
    if (net.runs) bits_ = Bits(compiled_);
  }

  void PlantAll() {
    ASSERT_TRUE(tokens_.has_value());
    for (const std::string& strategy : StrategiesAndDynamic()) {
      for (const int streams : {1, 2}) {
        SCOPED_TRACE(absl::StrCat(strategy, " on ", streams, " streams"));
        MemoryOptions memory{.strategy = strategy, .planner = PlannerFor(strategy), .streams = streams};
        const absl::Status planned = PlanAndLower(compiled_, memory);
        ASSERT_TRUE(planned.ok()) << planned.message();
        ASSERT_TRUE(IsSound(compiled_));
        const int rounds = net_.rounds * (strategy == kDynamicMemory ? 6 : 1);  // few faults have a place there
        for (const KindOfFault& fault : kFaults) {
          for (int round = 0; round < rounds; ++round) ASSERT_NO_FATAL_FAILURE(Plant(fault));
        }
        for (int round = 0; round < net_.rounds; ++round) ASSERT_NO_FATAL_FAILURE(ForgetAReader(memory));
      }
    }
  }

  const std::map<std::string, Tally>& tallies() const { return tallies_; }

 private:
  bool IsSound(const Compiled& compiled) const {
    return test::RunOnTokens(compiled) == tokens_ && test::EveryOverlapIsOrdered(compiled);
  }
  static std::optional<std::vector<uint64_t>> RunOnTokens(const Compiled& compiled) {
    return test::RunOnTokens(compiled);
  }

  void Plant(const KindOfFault& fault) {
    Planter planter(compiled_, ++seed_);
    if (!(planter.*fault.plant)()) return;
    const bool harmful = Check(fault.name, fault.exact, planter.faulty);
    // Where the plan itself is wrong, its check by the tasks alone sees that, too: on one stream as on several.
    EXPECT_TRUE(!harmful || !planter.relowered || !planter.scheduled.ok()) << fault.name;
  }

  // As if a stage before the plan had: lifetimes, and all that is made of them, are wrong then.
  void ForgetAReader(const MemoryOptions& memory) {
    std::mt19937 random(++seed_);
    Compiled faulty = compiled_;
    std::vector<memory::TaskValue>& values = faulty.tasks.tasks.values;
    memory::TaskValue& value = values[random() % values.size()];
    if (value.readers.empty()) return;
    value.readers.erase(value.readers.begin() + static_cast<std::ptrdiff_t>(random() % value.readers.size()));
    const bool rejected = !PlanAndLower(faulty, memory).ok();
    const bool exact = !faulty.executable.memory.dynamic.has_value();  // a use that is not counted is always refused
    const bool harmful = Check("a reader forgotten", exact, faulty);
    EXPECT_TRUE(rejected || !harmful);
    if (!harmful || !exact) return;
    // A file of that plan is believed no more than the planner.
    const std::string path = absl::StrCat(testing::TempDir(), "/planted_faults_", getpid(), ".plan");
    ASSERT_TRUE(SavePlan(faulty, path).ok());
    MemoryOptions loaded{.plan_file = path, .streams = memory.streams};
    const absl::Status status = PlanAndLower(faulty, loaded);
    EXPECT_FALSE(status.ok());
    EXPECT_THAT(std::string(status.message()), HasSubstr(path));
  }

  // Whether brute force says that the fault does harm.
  bool Check(const std::string& fault, bool exact, const Compiled& faulty) {
    Tally& tally = tallies_[fault];
    ++tally.planted;
    const bool sound = IsSound(faulty);
    const absl::Status verified = VerifyExecutable(faulty);
    EXPECT_TRUE(verified.ok() == sound || (sound && !exact))
        << fault << ", seed " << seed_ << (sound ? ", harmless: " : ", harmful") << verified.message();
    tally.harmful += !sound;
    if (net_.runs && verified.ok() && !faulty.executable.memory.dynamic.has_value()) {
      EXPECT_TRUE(Bits(faulty) == bits_) << fault << ", seed " << seed_ << ": accepted, and the bits are others";
      ++tally.runs;
    }
    return !sound;
  }

  const FaultyNetwork net_;
  Compiled compiled_;
  std::optional<std::vector<uint64_t>> tokens_;  // of the truth
  std::string bits_;
  std::map<std::string, Tally> tallies_;
  uint32_t seed_ = 0;
};

class PlantedFaults : public testing::TestWithParam<FaultyNetwork> {};

// Each kind of fault must do harm somewhere, or its rejection has not been seen.
void PlantFaultsIn(const FaultyNetwork& net) {
  FaultsIn faults(net);
  ASSERT_NO_FATAL_FAILURE(faults.PlantAll());
  for (const auto& [fault, tally] : faults.tallies()) {
    std::printf("%-36s %5d planted, %5d harmful, %4d accepted and run\n", fault.c_str(), tally.planted, tally.harmful,
                tally.runs);
    EXPECT_GT(tally.harmful, 0) << fault;
  }
}

TEST_P(PlantedFaults, AreRejectedWhereTheyDoHarmAndNowhereElse) { PlantFaultsIn(GetParam()); }

INSTANTIATE_TEST_SUITE_P(Run, PlantedFaults,
                         testing::Values(FaultyNetwork{.name = "mlp", .batch = 4, .rounds = 4, .runs = true},
                                         FaultyNetwork{.name = "tiny_conv", .batch = 2, .rounds = 4, .runs = true},
                                         FaultyNetwork{.name = "lenet", .batch = 2, .rounds = 4, .runs = true},
                                         FaultyNetwork{.name = "transformer", .rounds = 2},
                                         FaultyNetwork{.name = "resnet20", .batch = 2, .rounds = 1}),
                         [](const auto& info) { return std::string(info.param.name); });

class CampaignPlantedFaults : public testing::TestWithParam<std::string> {};

TEST_P(CampaignPlantedFaults, AreRejectedWhereTheyDoHarmAndNowhereElse) {
  if (std::getenv("SNUG_CAMPAIGN") == nullptr) GTEST_SKIP() << "a campaign: set SNUG_CAMPAIGN to run it";
  PlantFaultsIn({.name = GetParam().c_str()});
}

INSTANTIATE_TEST_SUITE_P(Run, CampaignPlantedFaults, testing::ValuesIn(ModelsToRun()),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace snug::core
