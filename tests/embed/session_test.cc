#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <filesystem>
#include <fstream>
#include <map>
#include <mutex>
#include <numeric>
#include <regex>
#include <string>
#include <thread>
#include <utility>
#include <variant>

#include "tests/embed/networks.h"

namespace snug::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Session Make(const SessionOptions& options) {
  Result<Session> session = Session::Create(SmallNetwork(), options);
  EXPECT_TRUE(session.ok()) << session.status().message();
  return *std::move(session);
}

std::vector<float> Weights(Session& session) {
  const Tensor weight = *session.FindVariable("fc.weight");
  const auto values = weight.as<const float>();
  return {values.begin(), values.end()};
}

std::vector<float> Train(Session& session, int steps) {
  for (int i = 0; i < steps; ++i) EXPECT_TRUE(session.Step({{"x", kX}, {"y", kY}}).ok());
  return Weights(session);
}

class Directory {
 public:
  Directory() {
    std::string name = (std::filesystem::temp_directory_path() / "snug-embed-XXXXXX").string();
    EXPECT_NE(mkdtemp(name.data()), nullptr);
    path_ = name;
  }
  ~Directory() { std::filesystem::remove_all(path_); }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

TEST(Session, Learns) {
  Session session = Make({.batch = 2});
  Train(session, 1);
  const double before = *session.FetchScalar("loss");
  Train(session, 50);
  EXPECT_LT(*session.FetchScalar("loss"), before / 10);
  EXPECT_EQ(session.steps(), 51);
  const Result<std::vector<float>> out = session.Fetch<float>("out");
  ASSERT_TRUE(out.ok());
  ASSERT_EQ(out->size(), 6u);
  EXPECT_EQ(std::max_element(out->begin(), out->begin() + 3) - out->begin(), kY[0]);
}

TEST(Session, OwnBuffersAreTheEnginesBytes) {
  Session copied = Make({.batch = 2}), in_place = Make({.batch = 2});
  Train(copied, 3);
  for (int i = 0; i < 3; ++i) {
    const std::span<float> x = in_place.program().Input("x")->as<float>();
    const std::span<int32_t> y = in_place.program().Input("y")->as<int32_t>();
    std::copy(kX.begin(), kX.end(), x.begin());
    std::copy(kY.begin(), kY.end(), y.begin());
    ASSERT_TRUE(in_place.Step().ok());
  }
  EXPECT_EQ(Weights(in_place), Weights(copied));
  const Tensor out = *in_place.program().Output("out");
  EXPECT_THAT(out.shape, ElementsAre(2, 3));
  const auto values = out.as<const float>();
  EXPECT_EQ(std::vector<float>(values.begin(), values.end()), *in_place.Fetch<float>("out"));
  EXPECT_TRUE(out.as<const double>().empty());  // it is none
}

TEST(Session, TheProgramsOwnMemoryIsUsedWhereItIs) {
  for (const char* engine : {"serial", "replay", "dynamic"}) {
    Session copied = Make({.batch = 2});
    const SessionOptions options = {.batch = 2, .streams = 2, .engine = engine, .bound = {"x", "out"}};
    Session bound = Make(options);
    EXPECT_EQ(bound.taken_bytes(), Session::Plan(SmallNetwork(), options)->total_bytes());
    BufferVector<float> xs[2] = {BufferVector<float>(8), BufferVector<float>(8)};
    BufferVector<float> outs[2] = {BufferVector<float>(6), BufferVector<float>(6)};
    for (int step = 0; step < 5; ++step) {
      std::vector<float> x = kX;
      for (float& value : x) value += static_cast<float>(step);
      ASSERT_TRUE(copied.Step({{"x", x}, {"y", kY}}).ok());
      BufferVector<float>&in = xs[step % 2], &out = outs[step / 2 % 2];
      std::copy(x.begin(), x.end(), in.begin());
      ASSERT_TRUE(bound.Bind("x", std::as_const(in)).ok());
      ASSERT_TRUE(bound.Bind("out", out).ok());
      const Status status = bound.Step({{"y", kY}});
      ASSERT_TRUE(status.ok()) << status.message();
      EXPECT_EQ(std::vector<float>(out.begin(), out.end()), *copied.Fetch<float>("out"));
      EXPECT_TRUE(std::equal(in.begin(), in.end(), x.begin()));
      EXPECT_EQ(bound.program().Output("out")->data, out.data());
    }
    EXPECT_EQ(Weights(bound), Weights(copied));
  }
}

TEST(Session, WhatIsBoundTakesNoBytes) {
  const auto bytes = [](const std::vector<std::string>& bound) {
    const SessionOptions options = {.batch = 64, .memory = "none", .bound = bound};
    return Session::Plan(SmallNetwork(), options)->step_bytes;
  };
  EXPECT_EQ(bytes({}) - bytes({"x", "out"}), 64 * 4 * 4 + 64 * 3 * 4);
}

TEST(Session, BindingErrorsSayWhatWasExpected) {
  Session session = Make({.batch = 2, .bound = {"x", "out"}});
  BufferVector<float> x(8), out(6);
  EXPECT_THAT(session.Step({{"y", kY}}).message(), HasSubstr("input \"x\" float32[2, 4]: it was compiled to be bound"));
  EXPECT_THAT(session.Step({{"x", kX}, {"y", kY}}).message(), HasSubstr("input \"x\" is bound"));
  EXPECT_THAT(session.Bind("y", x).message(), HasSubstr("\"y\" was not compiled to be bound; these were: x, out"));
  EXPECT_THAT(session.Bind("x", out).message(), HasSubstr("expected a buffer of 8 float32, found 6 float32"));
  EXPECT_THAT(session.Bind("out", std::as_const(out)).message(), HasSubstr("found one of const elements"));
  EXPECT_THAT(session.Bind("x", Buffer(x.data() + 1, 8, DType::kFloat32)).message(), HasSubstr("a multiple of 64"));
  ASSERT_TRUE(session.Bind("x", x).ok());
  ASSERT_TRUE(session.Bind("out", std::span(x).first(6)).ok());
  EXPECT_THAT(session.Step({{"y", kY}}).message(), HasSubstr("bytes that overlap"));
  ASSERT_TRUE(session.Bind("out", out).ok());
  EXPECT_TRUE(session.Step({{"y", kY}}).ok());
  EXPECT_THAT(Session::Create(SmallNetwork(), {.bound = {"z"}}).status().message(),
              HasSubstr("bound \"z\": expected an input or an output"));
}

TEST(Session, FeedsAreConvertedWhereNothingIsLost) {
  Session a = Make({.batch = 2}), b = Make({.batch = 2});
  ASSERT_TRUE(a.Step({{"x", std::vector<double>(kX.begin(), kX.end())}, {"y", std::vector<int64_t>{0, 2}}}).ok());
  ASSERT_TRUE(b.Step({{"x", kX}, {"y", kY}}).ok());
  EXPECT_EQ(Weights(a), Weights(b));
  EXPECT_THAT(a.Feed("y", {0.F, 1.F}).message(), HasSubstr("\"y\": expected integers for int32, found float32"));
  EXPECT_THAT(a.Feed("y", std::vector<int64_t>{0, int64_t{1} << 40}).message(), HasSubstr("which no int32 can be"));
}

TEST(Session, ErrorsSayWhatWasExpected) {
  Session session = Make({.batch = 2});
  EXPECT_THAT(session.Feed("x", {1.F}).message(), HasSubstr("\"x\" float32[2, 4]: expected 8 numbers, found 1"));
  EXPECT_THAT(session.Feed("z", {1.F}).message(), HasSubstr("no input \"z\"; there are: x, y"));
  EXPECT_EQ(session.Fetch<float>("lost").status().code(), StatusCode::kNotFound);
  EXPECT_EQ(session.evaluation().status().code(), StatusCode::kFailedPrecondition);
  EXPECT_EQ(session.FindVariable("fc.wait").status().code(), StatusCode::kNotFound);
  const auto refused = [](const SessionOptions& options) {
    return Session::Create(SmallNetwork(), options).status().message();
  };
  EXPECT_THAT(refused({.memory = "bets"}), HasSubstr("did you mean \"best\"?"));
  EXPECT_THAT(refused({.streams = 0}), HasSubstr("option \"streams\": expected at least 1, found 0"));
  EXPECT_THAT(refused({.precision = DType::kInt32}), HasSubstr("option \"precision\""));
  EXPECT_THAT(refused({.engine = "steam"}), HasSubstr("steam"));
}

TEST(Session, DevicesAndStreamsThatAreNotThereAreErrors) {
  const auto refused = [](const char* device) { return Session::Create(SmallNetwork(), {.device = device}).status(); };
  EXPECT_THAT(refused("gpu").message(), HasSubstr("option \"device\": expected cpu, cuda or cuda:N, found \"gpu\""));
  EXPECT_NE(refused("cuda:99").code(), StatusCode::kOk);
  Session session = Make({.device = "cpu", .batch = 2});
  EXPECT_THAT(session.FollowStream(nullptr).message(), HasSubstr("expected a session on cuda, found one on cpu"));
  Train(session, 1);
  EXPECT_TRUE(session.Wait().ok()) << "nothing is under way";
}

TEST(Session, EvaluationSeesTheTrainedVariables) {
  Session session = Make({.batch = 2, .evaluation_batch = 1});
  Train(session, 5);
  Result<Program> evaluation = session.evaluation();
  ASSERT_TRUE(evaluation.ok());
  EXPECT_EQ(evaluation->batch(), 1);
  ASSERT_TRUE(evaluation->Run({{"x", std::vector<float>(kX.begin(), kX.begin() + 4)}, {"y", {0}}}).ok());
  const std::vector<float> one = *evaluation->Fetch<float>("out");
  ASSERT_EQ(one.size(), 3u);
  ASSERT_TRUE(session.SetLearningRate(0).ok());
  Train(session, 1);  // the forward part of a step sees the same Variables
  const std::vector<float> both = *session.Fetch<float>("out");
  for (size_t i = 0; i < 3; ++i) EXPECT_NEAR(one[i], both[i], 1e-5);
}

TEST(Session, LearningRateAndVariables) {
  Session session = Make({.batch = 2});
  EXPECT_NEAR(*session.learning_rate(), 0.1, 1e-7);
  ASSERT_TRUE(session.SetLearningRate(0).ok());
  const std::vector<float> before = Weights(session);
  EXPECT_EQ(Train(session, 2), before);
  std::vector<float> ramp(32);
  std::iota(ramp.begin(), ramp.end(), 0.F);
  ASSERT_TRUE(session.SetVariable("fc.weight", ramp).ok());
  EXPECT_EQ(Weights(session), ramp);
  const std::vector<Variable> variables = *session.variables();
  const auto weight =
      std::find_if(variables.begin(), variables.end(), [](const Variable& v) { return v.name == "fc.weight"; });
  ASSERT_NE(weight, variables.end());
  EXPECT_TRUE(weight->parameter);
  EXPECT_THAT(weight->type.shape, ElementsAre(8, 4));
}

TEST(Session, RestoredTrainingGoesOnBitForBit) {
  const Directory directory;
  Session whole = Make({.batch = 2, .seed = 3});
  Train(whole, 4);
  const Result<std::string> path = whole.Save(directory.path());
  ASSERT_TRUE(path.ok()) << path.status().message();
  EXPECT_THAT(*path, HasSubstr("step-000000004.safetensors"));
  Session resumed = Make({.batch = 2, .seed = 3});
  ASSERT_TRUE(resumed.Restore(directory.path()).ok());  // the newest of it
  EXPECT_EQ(resumed.steps(), 4);
  EXPECT_EQ(Train(resumed, 3), Train(whole, 3));

  Session weights = Make({.batch = 1, .training = false});
  ASSERT_TRUE(weights.Restore(*path, Load::kWeights).ok());
  EXPECT_EQ(weights.Restore("/nowhere/x.safetensors").code(), StatusCode::kNotFound);
}

TEST(Session, MemoryIsWhatWasPlanned) {
  const SessionOptions options = {.batch = 2, .evaluation_batch = 8};
  const Result<MemoryFigures> planned = Session::Plan(SmallNetwork(), options);
  ASSERT_TRUE(planned.ok()) << planned.status().message();
  Session session = Make(options);
  EXPECT_EQ(session.taken_bytes(), planned->total_bytes());
  EXPECT_LE(planned->lower_bound, planned->total_bytes());
  const MemoryFigures figures = *session.program().memory();
  EXPECT_EQ(figures.strategy, "best");
  EXPECT_GT(figures.state_bytes, 0);
  EXPECT_THAT(Session::Create(SmallNetwork(), {.memory_limit = 100}).status().message(),
              HasSubstr("bytes, the limit is 100"));
}

TEST(Session, MemoryStreamsAndEngineAreChosenByName) {  // that all give the same bits: tests/run/matrix_test.cc
  Session truth = Make({.batch = 2, .engine = "serial", .memory = "none"});
  const std::vector<float> expected = Train(truth, 5);
  for (const char* memory : {"best", "offset", "nnc", "dynamic"}) {
    for (const char* engine : {"serial", "replay", "dynamic"}) {
      if (memory == std::string("dynamic") && engine == std::string("replay")) continue;  // there is no plan to replay
      Session session = Make({.batch = 2, .streams = 2, .engine = engine, .memory = memory});
      EXPECT_EQ(Train(session, 5), expected) << memory << ", " << engine;
      EXPECT_EQ(session.program().memory()->strategy.rfind(memory, 0), 0u) << memory;
    }
  }
}

// Name and type of the fields of `training { memory { } }` but strategy and limit, which SessionOptions has by itself.
std::vector<std::pair<std::string, std::string>> MemoryFields() {
  std::ifstream file(SNUG_SOURCE_DIR "/proto/train.proto");
  const std::regex field(R"(  optional (\w+) (\w+) = .*)");
  std::vector<std::pair<std::string, std::string>> fields;
  bool within = false;
  for (std::string line; std::getline(file, line);) {
    if (line == "message Memory {") within = true;
    if (line == "}") within = false;
    std::smatch match;
    if (!within || !std::regex_match(line, match, field)) continue;
    if (match[2] != "strategy" && match[2] != "memory_limit") fields.emplace_back(match[2], match[1]);
  }
  return fields;
}

TEST(Session, EveryMemoryOptionOfTheModelFileIsOneOfTheProgram) {
  const std::vector<std::pair<std::string, std::string>> fields = MemoryFields();
  EXPECT_GT(fields.size(), 10u);
  for (const auto& [name, type] : fields) {
    const OptionValue value = type == "string"   ? OptionValue("buddy")
                              : type == "bool"   ? OptionValue(false)
                              : type == "double" ? OptionValue(0.5)
                                                 : OptionValue(1);
    const auto plan = [&, &name = name](const OptionValue& given, const std::string& memory) {
      return Session::Plan(SmallNetwork(), {.memory = memory, .memory_options = {{name, given}}}).status();
    };
    EXPECT_TRUE(plan(value, "dynamic").ok()) << name;
    EXPECT_EQ(plan(value, "best").message(), "option \"" + name +
                                                 "\": expected memory = \"dynamic\" beside it: planned "
                                                 "memory has no allocator");
    const OptionValue wrong = type == "string" ? OptionValue(1) : OptionValue("buddy");
    EXPECT_THAT(plan(wrong, "dynamic").message(), HasSubstr("option \"" + name + "\": expected "));
  }
}

// A value as a model file has it.
std::string InFile(const OptionValue& value) {
  if (const bool* const truth = std::get_if<bool>(&value.value())) return *truth ? "true" : "false";
  if (const int64_t* const whole = std::get_if<int64_t>(&value.value())) return std::to_string(*whole);
  if (const double* const number = std::get_if<double>(&value.value())) return std::to_string(*number);
  return "'" + std::get<std::string>(value.value()) + "'";
}

TEST(Session, EveryMemoryOptionOfTheProgramChangesTheBytesAsItDoesInTheModelFile) {
  constexpr int64_t kBatch = 100'000, kLimit = 100'000'000;  // values of 3.2 MB
  struct Case {
    Option option;
    std::vector<Option> beside = {};  // without which the option has no effect
    bool has_effect = true;
  };
  const std::map<std::string, Case> cases = {
      {"allocator", {{"allocator", "buddy"}}},
      {"fraction_of_device_memory", {{"fraction_of_device_memory", 0.5}, {{"allocator", "prealloc"}}}},
      {"device_reserve", {{"device_reserve", 0.5}, {{"allocator", "prealloc"}}}},
      {"initial_mb", {{"initial_mb", 50}, {{"allocator", "prealloc"}}}},
      {"reallocate_mb", {{"reallocate_mb", 30}, {{"allocator", "prealloc"}, {"initial_mb", 1}}}},
      {"buddy_initial_mb", {{"buddy_initial_mb", 50}, {{"allocator", "buddy"}}}},
      {"buddy_max_pool_mb", {{"buddy_max_pool_mb", 1}, {{"allocator", "buddy"}, {"buddy_initial_mb", 8}}}},
      {"auto_growth_chunk_mb", {{"auto_growth_chunk_mb", 40}}},
      {"gc_threshold_gb", {{"gc_threshold_gb", -1}, {{"allocator", "system"}}}},
      {"gc_fraction", {{"gc_fraction", 0.25}, {{"allocator", "system"}}}},
      {"inplace", {{"inplace", false}}},
      // How long a request waits for other workers, and whether it waits for a GPU's stream, changes no bytes here.
      {"retry_ms", {{"retry_ms", 1}, {}, /*has_effect=*/false}},
      {"gc_fast", {{"gc_fast", false}, {}, /*has_effect=*/false}},
  };
  const auto planned = [&](const std::vector<Option>& memory_options) {
    const Result<MemoryFigures> figures =
        Session::Plan(SmallNetwork(),
                      {.batch = kBatch, .memory = "dynamic", .memory_limit = kLimit, .memory_options = memory_options});
    EXPECT_TRUE(figures.ok()) << figures.status().message();
    return figures.ok() ? figures->step_bytes : -1;
  };
  const auto planned_by_file = [&](const std::vector<Option>& memory_options) {
    std::string text = std::string(kSmallText) + "training { memory { strategy: 'dynamic'";
    for (const auto& [name, value] : memory_options) text += " " + name + ": " + InFile(value);
    const Result<Network> network = Network::FromText(text + " } }", "net.pbtxt");
    const Result<MemoryFigures> figures = Session::Plan(*network, {.batch = kBatch, .memory_limit = kLimit});
    EXPECT_TRUE(figures.ok()) << figures.status().message();
    return figures.ok() ? figures->step_bytes : -1;
  };
  for (const auto& [name, type] : MemoryFields()) {
    SCOPED_TRACE(name);
    ASSERT_TRUE(cases.contains(name));
    const Case& c = cases.at(name);
    std::vector<Option> with = c.beside;
    with.push_back(c.option);
    EXPECT_EQ(planned(with) != planned(c.beside), c.has_effect);
    EXPECT_EQ(planned(with), planned_by_file(with));
  }
  EXPECT_EQ(planned({{"allocator", "prealloc"}, {"initial_mb", 50}}), 50'000'000);
  EXPECT_EQ(planned({{"allocator", "buddy"}, {"buddy_initial_mb", 50}}), 50'000'000);
  EXPECT_EQ(planned({{"auto_growth_chunk_mb", 40}}), 40'000'000);
}

TEST(Session, MemoryWithoutAPlanTrainsToTheSameBits) {
  Session truth = Make({.batch = 2, .engine = "serial", .memory = "none"});
  const std::vector<float> expected = Train(truth, 5);
  for (const std::vector<Option>& memory_options :
       {std::vector<Option>{},
        {{"allocator", "buddy"}, {"buddy_initial_mb", 3}},
        {{"gc_threshold_gb", -1}},
        {{"allocator", "prealloc"}, {"initial_mb", 5}, {"inplace", false}}}) {
    for (const char* engine : {"", "dynamic"}) {
      const SessionOptions options = {
          .batch = 2, .streams = 2, .engine = engine, .memory = "dynamic", .memory_options = memory_options};
      Session session = Make(options);
      EXPECT_EQ(Train(session, 5), expected);
      EXPECT_EQ(session.program().memory()->strategy, "dynamic");
    }
  }
  const auto step_bytes = [](const std::vector<Option>& memory_options) {
    return Session::Plan(SmallNetwork(), {.memory = "dynamic", .memory_options = memory_options})->step_bytes;
  };
  EXPECT_EQ(step_bytes({{"allocator", "buddy"}, {"buddy_initial_mb", 3}}), 3'000'000);
  EXPECT_EQ(step_bytes({{"allocator", "prealloc"}, {"initial_mb", 5}}), 5'000'000);
  EXPECT_THAT(Session::Create(SmallNetwork(), {.engine = "replay", .memory = "dynamic"}).status().message(),
              HasSubstr("engine \"replay\": expected planned memory"));
}

TEST(Session, MistakesInMemoryOptionsSayWhatWasMeant) {
  const auto mistake = [](const Option& option) {
    return Session::Plan(SmallNetwork(), {.memory = "dynamic", .memory_options = {option}}).status().message();
  };
  EXPECT_EQ(mistake({"gc_fracton", 0.5}),
            "option \"gc_fracton\": unknown field \"gc_fracton\" of Memory; did you mean \"gc_fraction\"?");
  EXPECT_EQ(mistake({"gc_fraction", 1.5}), "option \"gc_fraction\": expected a share from 0 to 1, found 1.5");
  EXPECT_THAT(mistake({"allocator", "slab"}), HasSubstr("option \"allocator\": expected auto_growth"));
}

TEST(Session, MemoryIsThatOfTheModelFileWhereTheProgramDoesNotSay) {
  const auto plan = [](const std::string& memory, const SessionOptions& options) {
    const Result<Network> network =
        Network::FromText(std::string(kSmallText) + "training { memory { " + memory + " } }", "net.pbtxt");
    return Session::Plan(*network, options);
  };
  const std::string buddy = "strategy: 'dynamic' allocator: 'buddy' buddy_initial_mb: 3";
  EXPECT_EQ(plan(buddy, {})->step_bytes, 3'000'000);
  EXPECT_EQ(plan(buddy, {.memory_options = {{"buddy_initial_mb", 4}}})->step_bytes, 4'000'000);
  EXPECT_EQ(plan(buddy, {.memory = "none"})->strategy, "none");
  EXPECT_THAT(plan("memory_limit: '100'", {}).status().message(), HasSubstr("the limit is 100"));
  EXPECT_TRUE(plan("memory_limit: '100'", {.memory_limit = 1'000'000}).ok());
  EXPECT_EQ(plan("\ngc_fraction: 2", {}).status().message(),
            "net.pbtxt:13:14: training.memory.gc_fraction: expected a share from 0 to 1, found 2");
}

// An op that goes on until it is told that a report has come.
Op Stuck(std::mutex* mu, std::condition_variable* came, const std::vector<std::string>* reports) {
  Op op{.name = "stuck", .doc = "y = x, late"};
  op.infer = [](const OpCall& call, std::vector<TensorType>* outputs) {
    outputs->push_back(call.input(0).type());
    return Status();
  };
  op.kernel = [=](const OpCall&) {
    std::unique_lock<std::mutex> lock(*mu);
    const bool told = came->wait_for(lock, std::chrono::seconds(60), [&] { return !reports->empty(); });
    return told ? Status() : Status(StatusCode::kInternal, "no report came");
  };
  return op;
}

TEST(Session, AWatchdogTellsTheProgramWhatIsStuck) {
  std::mutex mu;
  std::condition_variable came;
  std::vector<std::string> reports;
  Network network("late");
  network.AddOp(Stuck(&mu, &came, &reports)).Input("x", {4}).Layer("wait", "stuck", {"x"}).Output("wait");
  SessionOptions options = {.training = false, .watchdog = 0.05};
  options.watchdog_report = [&](const std::string& report) {
    const std::lock_guard<std::mutex> lock(mu);
    reports.push_back(report);
    came.notify_all();
  };
  {
    Result<Session> session = Session::Create(network, options);
    ASSERT_TRUE(session.ok()) << session.status().message();
    const Status status = session->Step({{"x", {1.F, 2.F, 3.F, 4.F}}});
    EXPECT_TRUE(status.ok()) << status.message();
  }
  EXPECT_THAT(reports.at(0), HasSubstr("\"wait\" (stuck)"));
  const auto refused = [](const SessionOptions& wrong) {
    return Session::Create(SmallNetwork(), wrong).status().message();
  };
  EXPECT_EQ(refused({.watchdog = -1}), "option \"watchdog\": expected seconds, found -1");
  EXPECT_THAT(refused({.watchdog_report = [](const std::string&) {}}), HasSubstr("expected seconds in \"watchdog\""));
}

TEST(Session, TwoThreadsTrainIndependently) {
  Session first = Make({.batch = 2, .seed = 1}), second = Make({.batch = 2, .seed = 2});
  const std::vector<float> expected[] = {Train(first, 100), Train(second, 100)};
  std::vector<float> found[2];
  {
    std::jthread a([&] {
      Session session = Make({.batch = 2, .seed = 1});
      found[0] = Train(session, 100);
    });
    std::jthread b([&] {
      Session session = Make({.batch = 2, .seed = 2});
      found[1] = Train(session, 100);
    });
  }
  EXPECT_EQ(found[0], expected[0]);
  EXPECT_EQ(found[1], expected[1]);
  EXPECT_NE(found[0], found[1]);
}

TEST(Version, IsThatOfTheHeaders) {
  EXPECT_STREQ(LibraryVersion(), SNUG_VERSION_STRING);
  EXPECT_GE(SNUG_VERSION, SNUG_MAKE_VERSION(0, 1, 0));
}

TEST(Session, GoesOnFromACheckpointOnlyWithTheWeightDecayThatItHad) {
  const std::string before = SNUG_SOURCE_DIR "/tests/data/before_decay/";
  const Result<Network> network = Network::FromFile(before + "net.pbtxt");
  ASSERT_TRUE(network.ok()) << network.status().message();
  Result<Session> session = Session::Create(*network, {.batch = 2, .precision = DType::kFloat64});
  ASSERT_TRUE(session.ok()) << session.status().message();
  const std::string checkpoint = before + "step-000000003.safetensors";
  const Status refused = session->Restore(checkpoint);
  EXPECT_EQ(refused.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(refused.message(), HasSubstr("weight decay did not act on fc.bias, out.bias, here it does"));
  EXPECT_EQ(session->steps(), 0);
  EXPECT_TRUE(session->Restore(checkpoint, Load::kWeights).ok());
  const Directory directory;
  ASSERT_TRUE(session->Save(directory.path()).ok());
  EXPECT_TRUE(session->Restore(directory.path()).ok());
}

// Another thread asks again and again, at moments that nobody chooses.
TEST(Session, AStepThatIsStoppedHasChangedNothing) {
  for (const SessionOptions& options :
       {SessionOptions{.batch = 2, .engine = "serial"}, SessionOptions{.batch = 2, .streams = 2, .engine = "replay"},
        SessionOptions{.batch = 2, .streams = 2, .engine = "dynamic"}}) {
    Session session = Make(options), whole = Make(options);
    session.Stop();
    const std::vector<float> before = Weights(session);
    const Status stopped = session.Step({{"x", kX}, {"y", kY}});
    EXPECT_EQ(stopped.code(), StatusCode::kCancelled) << stopped.message();
    EXPECT_EQ(Weights(session), before);
    EXPECT_EQ(session.steps(), 0);
    session.Stop(false);

    std::atomic<bool> done{false};
    std::thread asks([&] {
      for (int i = 0; !done; ++i) session.Stop(i % 64 == 0);
    });
    while (session.steps() < 50) {
      const int64_t steps = session.steps();
      const Status status = session.Step({{"x", kX}, {"y", kY}});
      ASSERT_TRUE(status.ok() || status.code() == StatusCode::kCancelled) << status.message();
      ASSERT_EQ(session.steps(), steps + (status.ok() ? 1 : 0));
    }
    done = true;
    asks.join();
    EXPECT_EQ(Weights(session), Train(whole, 50)) << options.engine;
  }
}

TEST(Session, TypesOfInputsAndOutputsAreToldWithoutFeeding) {
  Session session = Make({.batch = 2, .bound = {"x"}});
  const Result<Tensor> x = session.program().InputType("x");  // bound, so it has no bytes of the session's
  ASSERT_TRUE(x.ok()) << x.status().message();
  EXPECT_EQ(x->data, nullptr);
  EXPECT_EQ(x->dtype, DType::kFloat32);
  EXPECT_EQ(x->num_elements(), 8);
  EXPECT_THAT(session.program().OutputType("out")->shape, ElementsAre(2, 3));
  const Status missing = session.program().InputType("z").status();
  EXPECT_EQ(missing.code(), StatusCode::kNotFound);
  EXPECT_THAT(missing.message(), HasSubstr("no input \"z\"; there are: x, y"));
}

TEST(Session, APlanIsReportedAsJson) {
  const Result<std::string> report = Session::PlanReport(SmallNetwork(), {.batch = 2});
  ASSERT_TRUE(report.ok()) << report.status().message();
  EXPECT_THAT(*report, HasSubstr("\"name\": \"fc.weight\""));
  const int64_t total = Session::Plan(SmallNetwork(), {.batch = 2})->total_bytes();
  EXPECT_THAT(*report, HasSubstr("\"total\": " + std::to_string(total)));
  EXPECT_THAT(*Session::Strategies(false),
              ::testing::AllOf(::testing::Contains("best"), ::testing::Contains("dynamic")));
  EXPECT_THAT(*Session::Strategies(true), ::testing::Contains("olla"));
}

}  // namespace
}  // namespace snug::testing
