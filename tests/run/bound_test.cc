// Inputs and outputs in the caller's memory: the same bits as in the session's own, under every engine.
#include <absl/strings/str_cat.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <map>
#include <random>

#include "engine/compile/memory/plan_memory.h"
#include "tests/run/train_util.h"

namespace snug::core {
namespace {

using ::testing::HasSubstr;

// On pages of its own, at their end, between others that nobody may touch.
class Block {
 public:
  explicit Block(const ValueType& type) : type_(type) {
    const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    const size_t lines = (Size() + 63) / 64 * 64;
    inside_ = (lines + page - 1) / page * page;
    void* const pages = mmap(nullptr, inside_ + 2 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    EXPECT_NE(pages, MAP_FAILED);
    inside_begin_ = static_cast<std::byte*>(pages) + page;
    data_ = inside_begin_ + inside_ - lines;
    Allow(PROT_READ | PROT_WRITE);
    std::memset(data_, 0xEE, Size());
  }
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;
  ~Block() {
    const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    munmap(inside_begin_ - page, inside_ + 2 * page);
  }

  void Allow(int rights) { EXPECT_EQ(mprotect(inside_begin_, inside_, rights), 0); }

  // Normal numbers, or integers below 10.
  void Draw(uint64_t seed) {
    std::mt19937_64 random(seed);
    for (int64_t i = 0; i < type_.num_elements(); ++i) {
      if (type_.dtype == DType::kInt32) {
        reinterpret_cast<int32_t*>(data_)[i] = static_cast<int32_t>(random() % 10);
      } else {
        reinterpret_cast<float*>(data_)[i] = std::normal_distribution<float>()(random);
      }
    }
  }
  Given given() const { return {data_, type_.dtype, type_.num_elements(), true}; }
  std::byte* data() const { return data_; }
  // The rest of the last cache line: pages do not tell it from the value.
  void ExpectNothingBehind(const std::string& name) const {
    const bool untouched =
        std::all_of(data_ + Size(), inside_begin_ + inside_, [](std::byte b) { return b == std::byte(); });
    EXPECT_TRUE(untouched) << name;
  }
  std::vector<std::byte> bytes() const { return {data_, data_ + Size()}; }

 private:
  size_t Size() const { return static_cast<size_t>(type_.size_bytes()); }

  ValueType type_;
  size_t inside_ = 0;
  std::byte* inside_begin_ = nullptr;
  std::byte* data_ = nullptr;
};

struct BoundRun {
  const char* name;
  ExecutorKind engine = ExecutorKind::kSerial;
  const char* memory = "best";
  int streams = 1;
  bool poison = false;
};
void PrintTo(const BoundRun& how, std::ostream* out) { *out << how.name; }

absl::StatusOr<std::unique_ptr<Session>> MakeBound(const LoadedNetwork& loaded, const CompileOptions& options,
                                                   const BoundRun& how) {
  CompileOptions compile = options;
  compile.memory.strategy = how.memory;
  compile.memory.streams = how.streams;
  absl::StatusOr<Compiled> compiled = Compile(loaded.network, loaded.source_map, OpRegistry::Builtin(), compile);
  if (!compiled.ok()) return compiled.status();
  return Session::Create(*std::move(compiled), {.seed = 3, .engine = how.engine, .poison = how.poison});
}

std::unique_ptr<Session> MustMakeBound(const LoadedNetwork& loaded, const CompileOptions& options,
                                       const BoundRun& how = {"x"}) {
  absl::StatusOr<std::unique_ptr<Session>> session = MakeBound(loaded, options, how);
  EXPECT_TRUE(session.ok()) << session.status().message();
  return *std::move(session);
}

// What a few steps on drawn data leave: all outputs of each, and the state. What is bound lies in other bytes in every
// step, and every third of them again in those of the first.
std::vector<std::vector<std::byte>> Results(Session& session) {
  const Executable& executable = session.compiled().executable;
  constexpr int kSets = 3;
  std::map<std::string, std::deque<Block>> blocks;
  for (const CallerBuffer& buffer : executable.caller_buffers) {
    for (int i = 0; i < kSets; ++i) blocks[buffer.name].emplace_back(buffer.type);
  }
  std::vector<std::vector<std::byte>> results;
  for (uint64_t step = 0; step < 7; ++step) {
    std::map<std::string, std::vector<std::byte>> fed;
    for (size_t i = 0; i < executable.inputs.size(); ++i) {
      const Endpoint& input = executable.inputs[i];
      Block drawn(input.type);
      drawn.Draw(step * 100 + i);
      fed[input.name] = drawn.bytes();
      if (!blocks.contains(input.name)) {
        std::memcpy(session.Input(input.name)->data, drawn.data(), fed[input.name].size());
      }
    }
    for (auto& [name, sets] : blocks) {
      Block& block = sets[step % kSets];
      block.Allow(PROT_READ | PROT_WRITE);
      if (fed.contains(name)) {
        std::memcpy(block.data(), fed[name].data(), fed[name].size());
        block.Allow(PROT_READ);  // whoever writes to an input ends the test
      }
      const absl::Status bound = session.program(0).Bind(name, block.given());
      EXPECT_TRUE(bound.ok()) << bound.message();
    }
    const absl::Status status = session.Run();
    EXPECT_TRUE(status.ok()) << status.message();
    for (const Endpoint& output : executable.outputs) {
      results.push_back(BytesOf(*session.Output(output.name)));
      if (const auto it = blocks.find(output.name); it != blocks.end() && !fed.contains(output.name)) {
        EXPECT_EQ(it->second[step % kSets].bytes(), results.back()) << output.name;
      }
    }
    for (const auto& [name, sets] : blocks) {
      for (const Block& block : sets) block.ExpectNothingBehind(name);
    }
  }
  results.emplace_back(session.state_data(), session.state_data() + session.state_bytes());
  return results;
}

class Bound : public ::testing::TestWithParam<BoundRun> {};

TEST_P(Bound, TrainsToTheSameBits) {
  for (const char* model : {"mlp", "lenet"}) {
    const absl::StatusOr<LoadedNetwork> loaded = LoadModel(model);
    ASSERT_TRUE(loaded.ok());
    CompileOptions options{.batch = 8, .fetch = {"fc3", "relu1", "loss"}};
    const auto expected = Results(*MustMakeBound(*loaded, options, {"truth", ExecutorKind::kSerial, "none"}));
    for (const std::vector<std::string>& bound :
         {std::vector<std::string>{"image"}, {"fc3"}, {"relu1", "label", "loss", "fc3", "image"}}) {
      options.bound = bound;
      const std::unique_ptr<Session> session = MustMakeBound(*loaded, options, GetParam());
      EXPECT_EQ(Results(*session), expected) << model << ", " << bound.size() << " bound";
      const MemoryPlan& plan = session->compiled().executable.memory;
      EXPECT_EQ(session->state_bytes(), plan.state_plan.arena_bytes);
      if (plan.dynamic.has_value()) continue;
      EXPECT_EQ(session->step_bytes(), plan.step_bytes());
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, Bound,
                         ::testing::Values(BoundRun{"serial_none", ExecutorKind::kSerial, "none"},
                                           BoundRun{"serial_poison", ExecutorKind::kSerial, "best", 1, true},
                                           BoundRun{"replay", ExecutorKind::kReplay},
                                           BoundRun{"replay_on_3", ExecutorKind::kReplay, "best", 3},
                                           BoundRun{"replay_both_on_2", ExecutorKind::kReplay, "both", 2},
                                           BoundRun{"dynamic_on_3", ExecutorKind::kDynamic, "best", 3},
                                           BoundRun{"allocator", ExecutorKind::kSerial, "dynamic"},
                                           BoundRun{"allocator_on_2", ExecutorKind::kDynamic, "dynamic", 2}),
                         [](const auto& info) { return info.param.name; });

LoadedNetwork Text(const std::string& text) {
  absl::StatusOr<LoadedNetwork> loaded = LoadNetworkText(text, "test");
  EXPECT_TRUE(loaded.ok()) << loaded.status().message();
  return *std::move(loaded);
}

// At batch 1 every slice and concat could be a view: of the input "x", of what is bound, and around it.
constexpr char kViews[] = R"(
name: "views"
input { name: "x" shape { dim: [2, 32] } }
layer { name: "flat"  input: "x"    flatten {} }
layer { name: "left"  input: "flat" slice { axis: 1 begin: 0 end: 32 } }
layer { name: "right" input: "flat" slice { axis: 1 begin: 32 } }
layer { name: "a"     input: "left"  dense { units: 16 } }
layer { name: "b"     input: "right" dense { units: 16 } }
layer { name: "ab"    input: "a" input: "b" concat {} }
layer { name: "grid"  input: "ab"   reshape { dim: [4, 8] } }
layer { name: "act"   input: "grid" tanh {} }
layer { name: "line"  input: "act"  flatten {} }
layer { name: "part"  input: "line" slice { axis: 1 begin: 16 } }
layer { name: "sum"   input: "part" input: "b" add {} }
layer { name: "loss"  input: "sum"  reduce_mean { axis: 1 } }
)";

TEST(BoundViews, LieInTheCallersBytesOrAreCopied) {
  const LoadedNetwork loaded = Text(kViews);
  CompileOptions options{.batch = 1,
                         .training = false,
                         .fetch = {"flat", "right", "a", "ab", "grid", "act", "line", "part", "sum", "loss"}};
  const auto expected = Results(*MustMakeBound(loaded, options, {"truth", ExecutorKind::kSerial, "none"}));
  for (const std::vector<std::string>& bound : {std::vector<std::string>{"x"},
                                                {"grid"},
                                                {"ab"},
                                                {"a"},
                                                {"a", "b", "ab"},
                                                {"line", "part"},
                                                {"act"},
                                                {"right"},
                                                {"part", "x", "a", "right", "grid", "line", "sum", "loss"}}) {
    options.bound = bound;
    if (std::find(bound.begin(), bound.end(), "b") != bound.end()) options.fetch.push_back("b");
    for (const BoundRun how :
         {BoundRun{"serial", ExecutorKind::kSerial, "both"}, BoundRun{"replay", ExecutorKind::kReplay, "best", 3},
          BoundRun{"dynamic", ExecutorKind::kDynamic, "dynamic", 2}}) {
      CompileOptions truth = options;
      truth.bound = {};
      EXPECT_EQ(Results(*MustMakeBound(loaded, options, how)),
                options.fetch.size() == 10 ? expected : Results(*MustMakeBound(loaded, truth)))
          << how.name << ", " << bound[0];
    }
    if (options.fetch.back() == "b") options.fetch.pop_back();
  }
}

TEST(BoundPlan, HasNoBytesForThem) {
  const absl::StatusOr<LoadedNetwork> loaded = LoadModel("mlp");
  CompileOptions options{.batch = 5, .fetch = {"fc3"}, .keep_inputs = true};
  const std::unique_ptr<Session> unbound = MustMakeBound(*loaded, options, {"none", ExecutorKind::kSerial, "none"});
  options.bound = {"image", "fc3"};
  const std::unique_ptr<Session> bound = MustMakeBound(*loaded, options, {"none", ExecutorKind::kSerial, "none"});
  const auto aligned = [](int64_t bytes) { return memory::AlignUp(bytes, 64); };
  EXPECT_EQ(unbound->step_bytes() - bound->step_bytes(), aligned(5 * 784 * 4) + aligned(5 * 10 * 4));
  EXPECT_EQ(unbound->state_bytes(), bound->state_bytes());
  for (const memory::Buffer& buffer : bound->compiled().executable.memory.step.problem.buffers) {
    EXPECT_NE(buffer.name, "image");
    EXPECT_NE(buffer.name, "fc3");
  }
  // And the bound on all plans falls with it, where they are live at the peak.
  const auto figures = [&](const std::vector<std::string>& names) {
    options.bound = names;
    return MustMakeBound(*loaded, options)->compiled().executable.memory.lower_bound();
  };
  EXPECT_EQ(figures({}) - figures({"image"}), aligned(5 * 784 * 4));
}

std::string Refused(const LoadedNetwork& loaded, const CompileOptions& options) {
  const auto session = MakeBound(loaded, options, {"x"});
  return session.ok() ? "" : std::string(session.status().message());
}

TEST(BoundErrors, OfNames) {
  const LoadedNetwork loaded = Text(kViews);
  const auto refused = [&](const std::vector<std::string>& bound) {
    return Refused(loaded, {.training = false, .fetch = {"flat", "ab", "grid", "loss"}, .bound = bound});
  };
  EXPECT_THAT(refused({"lost"}),
              HasSubstr("bound \"lost\": expected an input or an output, found neither; there are: x, "
                        "loss, flat, ab, grid (any other value becomes an output by being fetched)"));
  EXPECT_THAT(refused({"flat"}), HasSubstr("output \"flat\": it lies on the bytes of input \"x\"; bind that one"));
  EXPECT_THAT(refused({"ab", "grid"}),
              HasSubstr("bound \"grid\": its bytes are those of \"ab\", which is bound already"));
  EXPECT_THAT(refused({"x", "x"}), HasSubstr("\"x\": it is named twice"));
}

TEST(BoundErrors, OfVariables) {
  const LoadedNetwork loaded = Text(R"(
name: "table"
input { name: "x" shape { dim: 4 } }
layer { name: "fc" input: "x" dense { units: 4 } }
)");
  EXPECT_THAT(Refused(loaded, {.training = false, .fetch = {"fc", "fc.weight"}, .bound = {"fc.weight"}}),
              HasSubstr("output \"fc.weight\": it lies on the bytes of Variable \"fc.weight\""));
}

TEST(BoundErrors, OfBuffers) {
  const absl::StatusOr<LoadedNetwork> loaded = LoadModel("mlp");
  const std::unique_ptr<Session> session =
      MustMakeBound(*loaded, {.batch = 2, .training = false, .fetch = {"fc3"}, .bound = {"image", "label", "fc3"}});
  Program& program = session->program(0);
  const auto type_of = [&](size_t i) { return session->compiled().executable.caller_buffers[i].type; };
  Block image(type_of(0)), label(type_of(1)), logits(type_of(2));
  image.Draw(1);
  label.Draw(2);
  const auto message = [](const absl::Status& status) { return std::string(status.message()); };

  EXPECT_THAT(message(session->Run()),
              HasSubstr("input \"image\" float32[2, 784]: it was compiled to be bound, and is not"));
  EXPECT_THAT(message(program.Bind("imago", image.given())), HasSubstr("these were: image, label, fc3"));
  Given given = image.given();
  given.elements = 784;
  EXPECT_THAT(message(program.Bind("image", given)), HasSubstr("expected a buffer of 1568 float32, found 784 float32"));
  given = image.given();
  given.dtype = DType::kInt32;
  EXPECT_THAT(message(program.Bind("image", given)), HasSubstr("of 1568 float32, found 1568 int32"));
  given = image.given();
  given.data = image.data() + 16;
  EXPECT_THAT(message(program.Bind("image", given)),
              HasSubstr("begins at a multiple of 64 bytes, found one 16 bytes behind"));
  given.data = nullptr;
  EXPECT_THAT(message(program.Bind("image", given)), HasSubstr("found a null pointer"));
  given = logits.given();
  given.writable = false;
  EXPECT_THAT(message(program.Bind("fc3", given)),
              HasSubstr("output \"fc3\" float32[2, 10]: expected a buffer to write to"));
  given = image.given();
  given.data = session->FindVariable("fc2.weight")->data;
  EXPECT_THAT(message(program.Bind("image", given)), HasSubstr("found the session's own memory"));
  EXPECT_THAT(message(session->Feed("image", std::vector<double>(1568))), HasSubstr("input \"image\" is bound"));
  EXPECT_THAT(message(session->Output("fc3").status()), HasSubstr("no buffer is bound for it yet"));

  given = image.given();
  given.writable = false;
  ASSERT_TRUE(program.Bind("image", given).ok());
  ASSERT_TRUE(program.Bind("label", label.given()).ok());
  Given inside = logits.given();
  inside.data = image.data() + 128;
  ASSERT_TRUE(program.Bind("fc3", inside).ok());  // the next call may take the image away
  EXPECT_THAT(message(session->Run()), HasSubstr("output \"fc3\" and input \"image\": bound to bytes that overlap"));
  ASSERT_TRUE(program.Bind("fc3", logits.given()).ok());
  EXPECT_TRUE(session->Run().ok());
  EXPECT_FALSE(program.Bind("fc3", Given{image.data(), DType::kFloat64, 20}).ok());  // changes nothing
  EXPECT_TRUE(session->Run().ok());
  EXPECT_EQ(BytesOf(*session->Output("fc3")), logits.bytes());
}

TEST(BoundErrors, AccessesCannotBeChecked) {
  const absl::StatusOr<LoadedNetwork> loaded = LoadModel("mlp");
  absl::StatusOr<Compiled> compiled =
      Compile(loaded->network, loaded->source_map, OpRegistry::Builtin(), {.bound = {"image"}});
  ASSERT_TRUE(compiled.ok());
  const auto session = Session::Create(*std::move(compiled), {.engine = ExecutorKind::kSerial, .check_access = true});
  EXPECT_THAT(std::string(session.status().message()), HasSubstr("\"image\", which is bound, has none there"));
}

TEST(BoundPlan, IsSavedForTheSameOnes) {
  const absl::StatusOr<LoadedNetwork> loaded = LoadModel("mlp");
  CompileOptions options{.batch = 4, .fetch = {"fc3"}, .bound = {"image", "fc3"}};
  absl::StatusOr<Compiled> compiled = Compile(loaded->network, loaded->source_map, OpRegistry::Builtin(), options);
  ASSERT_TRUE(compiled.ok());
  const std::string path = absl::StrCat(::testing::TempDir(), "/bound_", getpid(), ".plan");
  ASSERT_TRUE(SavePlan(*compiled, path).ok());
  const auto expected = Results(*MustMakeBound(*loaded, options));
  options.memory.plan_file = path;
  EXPECT_EQ(Results(*MustMakeBound(*loaded, options)), expected);
  options.bound = {"image"};
  EXPECT_THAT(Refused(*loaded, options),
              HasSubstr("the plan is for another set of bound buffers: image, fc3, here it is image"));
  std::filesystem::remove(path);
}

TEST(BoundPrograms, AreNotLostWhenAnotherRuns) {
  const absl::StatusOr<LoadedNetwork> loaded = LoadModel("mlp");
  std::vector<Compiled> all;
  for (const bool training : {true, false}) {
    absl::StatusOr<Compiled> compiled =
        Compile(loaded->network, loaded->source_map, OpRegistry::Builtin(),
                {.batch = 4, .training = training, .fetch = {"fc3"}, .bound = {"image", "label", "fc3"}});
    ASSERT_TRUE(compiled.ok());
    all.push_back(*std::move(compiled));
  }
  const std::unique_ptr<Session> session = *Session::Create(std::move(all), {.seed = 1});
  std::deque<Block> blocks;
  for (size_t p = 0; p < 2; ++p) {
    for (const CallerBuffer& buffer : session->program(p).compiled().executable.caller_buffers) {
      blocks.emplace_back(buffer.type).Draw(blocks.size() % 3);
      ASSERT_TRUE(session->program(p).Bind(buffer.name, blocks.back().given()).ok());
    }
  }
  ASSERT_TRUE(session->Run(1).ok());
  const std::vector<std::byte> before = BytesOf(*session->program(1).Output("fc3"));
  ASSERT_TRUE(session->SetLearningRate(0).ok());
  ASSERT_TRUE(session->Run(0).ok());
  EXPECT_EQ(BytesOf(*session->program(1).Output("fc3")), before);
  ASSERT_TRUE(session->Run(0).ok());  // not to be fed again
  ASSERT_TRUE(session->Run(1).ok());
  EXPECT_EQ(BytesOf(*session->program(1).Output("fc3")), before);
  EXPECT_EQ(blocks[2].bytes().size(), before.size());
}

}  // namespace
}  // namespace snug::core
