// Traces as a viewer reads them: JSON whose slices nest, with an arrow for each planned wait and no other.
#include "engine/run/observe/trace.h"

#include <gmock/gmock.h>
#include <google/protobuf/struct.pb.h>
#include <google/protobuf/util/json_util.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <utility>

#include "engine/compile/memory/memory_report.h"
#include "engine/run/executors/executor.h"
#include "tests/run/train_util.h"

namespace snug::core {
namespace {

struct TraceEvent {
  std::string ph, name, cat, id, kernel;
  int tid = 0, step = -1;
  double ts = 0, dur = 0, bytes = 0;
};

// Null: the object has no such key. By reflection, which runs in the library: under ThreadSanitizer the headers have
// another layout for maps than a library that was built without it.
const google::protobuf::Value* Find(const google::protobuf::Struct& object, absl::string_view key) {
  const google::protobuf::Reflection* const reflection = object.GetReflection();
  const google::protobuf::FieldDescriptor* const fields = object.GetDescriptor()->field(0);
  const google::protobuf::Descriptor* const entry = fields->message_type();
  for (int i = 0; i < reflection->FieldSize(object, fields); ++i) {
    const google::protobuf::Message& one = reflection->GetRepeatedMessage(object, fields, i);
    const google::protobuf::Reflection* const of_entry = one.GetReflection();
    if (of_entry->GetString(one, entry->map_key()) != key) continue;
    return dynamic_cast<const google::protobuf::Value*>(&of_entry->GetMessage(one, entry->map_value()));
  }
  return nullptr;
}

std::vector<TraceEvent> ReadTrace(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  google::protobuf::Struct document;
  EXPECT_TRUE(google::protobuf::util::JsonStringToMessage(text.str(), &document).ok());
  std::vector<TraceEvent> events;
  const google::protobuf::Value* const listed = Find(document, "traceEvents");
  if (listed == nullptr) return events;
  for (const google::protobuf::Value& value : listed->list_value().values()) {
    const google::protobuf::Struct& fields = value.struct_value();
    const auto number = [](const google::protobuf::Struct& from, const char* key) {
      const google::protobuf::Value* const found = Find(from, key);
      return found == nullptr ? -1.0 : found->number_value();
    };
    const auto string = [&](const char* key) {
      const google::protobuf::Value* const found = Find(fields, key);
      return found == nullptr ? std::string() : found->string_value();
    };
    TraceEvent event{.ph = string("ph"), .name = string("name"), .cat = string("cat")};
    event.tid = static_cast<int>(number(fields, "tid"));
    event.ts = number(fields, "ts");
    event.dur = number(fields, "dur");
    event.id = std::to_string(number(fields, "id"));
    if (const google::protobuf::Value* const args = Find(fields, "args"); args != nullptr) {
      const google::protobuf::Value* const kernel = Find(args->struct_value(), "kernel");
      if (kernel != nullptr) event.kernel = kernel->string_value();
      event.step = static_cast<int>(number(args->struct_value(), "step"));
      event.bytes = number(args->struct_value(), "bytes");
    }
    events.push_back(std::move(event));
  }
  return events;
}

// Trains and returns the trace's events.
std::vector<TraceEvent> TraceOf(Session& session, int steps) {
  const std::string path = testing::TempDir() + "trace_test_" + std::to_string(getpid()) + ".json";
  absl::StatusOr<std::unique_ptr<OutputFile>> file = OutputFile::Create(path);
  EXPECT_TRUE(file.ok()) << file.status().message();
  Trace trace(*std::move(file), session.compiled(), OpRegistry::Builtin());
  std::vector<StepTime> times(session.compiled().executable.steps.size());
  session.executor().SetTimes(times.data());
  for (int i = 0; i < steps; ++i) {
    const int64_t begin = MonotonicNanoseconds();
    EXPECT_TRUE(session.Run().ok());
    trace.AddHost("run", begin, MonotonicNanoseconds());
    trace.AddStep(times);
  }
  session.executor().SetTimes(nullptr);
  EXPECT_TRUE(trace.Finish().ok());
  std::vector<TraceEvent> events = ReadTrace(path);
  std::filesystem::remove(path);
  return events;
}

std::unique_ptr<Session> MakeModel(const char* model, int64_t image, ExecutorKind engine, int streams) {
  absl::StatusOr<LoadedNetwork> loaded = LoadModel(model);
  EXPECT_TRUE(loaded.ok()) << loaded.status().message();
  if (image > 0) {
    loaded->network.mutable_input(0)->mutable_shape()->set_dim(1, image);
    loaded->network.mutable_input(0)->mutable_shape()->set_dim(2, image);
  }
  absl::StatusOr<Compiled> compiled =
      Compile(loaded->network, loaded->source_map, OpRegistry::Builtin(),
              {.batch = 2, .threads = 1, .keep_inputs = true, .memory = {.streams = streams}});
  EXPECT_TRUE(compiled.ok()) << compiled.status().message();
  absl::StatusOr<std::unique_ptr<Session>> session =
      Session::Create(*std::move(compiled), {.seed = 1, .engine = engine});
  EXPECT_TRUE(session.ok()) << session.status().message();
  EXPECT_TRUE(FeedRandom(**session, OpRegistry::Builtin(), 1).ok());
  return *std::move(session);
}

// Slices of one track, by begin.
std::map<int, std::vector<TraceEvent>> Tracks(const std::vector<TraceEvent>& events) {
  std::map<int, std::vector<TraceEvent>> tracks;
  for (const TraceEvent& event : events) {
    if (event.ph == "X") tracks[event.tid].push_back(event);
  }
  for (auto& [tid, slices] : tracks) {
    std::sort(slices.begin(), slices.end(), [](const TraceEvent& a, const TraceEvent& b) { return a.ts < b.ts; });
  }
  return tracks;
}

constexpr double kNanosecond = 1e-3;

// "name@training step" of the slice that an arrow's end binds to.
std::string SliceAt(const std::map<int, std::vector<TraceEvent>>& tracks, const TraceEvent& end) {
  std::string found;
  for (const TraceEvent& slice : tracks.at(end.tid)) {
    if (slice.cat != "step" || end.ts < slice.ts - kNanosecond / 2 || end.ts >= slice.ts + slice.dur) continue;
    found += slice.name + "@" + std::to_string(slice.step);
  }
  return found;
}

TEST(Trace, OfResNetOnTwoStreams) {
  constexpr int kSteps = 2;
  const std::unique_ptr<Session> session = MakeModel("resnet18", 32, ExecutorKind::kReplay, 2);
  const std::vector<TraceEvent> events = TraceOf(*session, kSteps);
  const auto tracks = Tracks(events);
  ASSERT_EQ(tracks.size(), 3u);  // the host, two streams
  for (const auto& [tid, slices] : tracks) {
    for (size_t i = 1; i < slices.size(); ++i) {
      EXPECT_LE(slices[i - 1].ts + slices[i - 1].dur, slices[i].ts + kNanosecond / 2)
          << slices[i - 1].name << " and " << slices[i].name;
    }
  }

  // Every Step of every stream has its slice, in the stream's sequence.
  const Compiled& compiled = session->compiled();
  std::map<std::string, std::string> kernels;  // by node
  for (const Step& step : compiled.executable.steps) {
    kernels[compiled.graph.node(step.node).name] = compiled.kernels[static_cast<size_t>(step.node.index)].Name();
  }
  const auto name_of = [&](int32_t step) {
    return compiled.graph.node(compiled.executable.steps[static_cast<size_t>(step)].node).name;
  };
  for (int s = 0; s < 2; ++s) {
    std::vector<std::string> expected, found;
    for (int i = 0; i < kSteps; ++i) {
      for (const int32_t step : compiled.executable.schedule.streams[static_cast<size_t>(s)]) {
        expected.push_back(name_of(step));
      }
    }
    for (const TraceEvent& slice : tracks.at(s + 1)) {
      if (slice.cat != "step") continue;
      found.push_back(slice.name);
      EXPECT_EQ(slice.kernel, kernels.at(slice.name)) << slice.name;
    }
    EXPECT_EQ(found, expected);
  }

  // Arrows are the planned waits.
  std::vector<std::pair<std::string, std::string>> expected, found;
  for (int i = 0; i < kSteps; ++i) {
    for (const auto& [a, b] : compiled.executable.schedule.waits) {
      const std::string at = "@" + std::to_string(i);
      expected.emplace_back(name_of(a) + at, name_of(b) + at);
    }
  }
  std::map<std::string, TraceEvent> begun;
  for (const TraceEvent& event : events) {
    if (event.ph == "s") begun[event.id] = event;
    if (event.ph == "f") found.emplace_back(SliceAt(tracks, begun.at(event.id)), SliceAt(tracks, event));
  }
  EXPECT_GT(expected.size(), 20u);
  EXPECT_EQ(begun.size(), expected.size());
  EXPECT_THAT(found, testing::UnorderedElementsAreArray(expected));

  int overlapping = 0;
  for (const TraceEvent& a : tracks.at(1)) {
    for (const TraceEvent& b : tracks.at(2)) {
      if (a.cat == "step" && b.cat == "step" && a.ts < b.ts + b.dur && b.ts < a.ts + a.dur) ++overlapping;
    }
  }
  EXPECT_GT(overlapping, 10);

  for (const TraceEvent& event : events) {
    if (event.ph == "C" && event.name == "step arena: live bytes") {
      EXPECT_LE(event.bytes, static_cast<double>(compiled.executable.memory.step.placement.plan.arena_bytes));
    }
  }
}

TEST(Trace, LiveBytesAreThePlansOnOneStream) {
  for (const ExecutorKind engine : {ExecutorKind::kReplay, ExecutorKind::kSerial}) {
    const std::unique_ptr<Session> session = MakeModel("lenet", 0, engine, 1);
    const MemoryPlan& plan = session->compiled().executable.memory;
    const std::vector<TraceEvent> events = TraceOf(*session, 1);
    double most = 0, state = 0;
    for (const TraceEvent& event : events) {
      if (event.ph == "C" && event.name == "step arena: live bytes") most = std::max(most, event.bytes);
      if (event.ph == "C" && event.name == "state arena") state = event.bytes;
      EXPECT_NE(event.ph, "s");
    }
    EXPECT_EQ(most, static_cast<double>(ReportOf(session->compiled().tasks, plan).step_bytes));
    EXPECT_EQ(state, static_cast<double>(plan.state_plan.arena_bytes));
  }
}

TEST(Trace, OfTheSerialEngineHasOneTrackAndNoArrows) {
  const std::unique_ptr<Session> session = MakeModel("lenet", 0, ExecutorKind::kSerial, 2);
  ASSERT_FALSE(session->compiled().executable.schedule.waits.empty());
  const std::vector<TraceEvent> events = TraceOf(*session, 1);
  EXPECT_EQ(Tracks(events).size(), 2u);  // with the host's
  for (const TraceEvent& event : events) EXPECT_NE(event.ph, "s");
}

// Its loops log their rounds into the trace, and one of them lies within the other.
TEST(Trace, MayBeGoneAfterItsLoopsOrBefore) {
  constexpr char kNested[] = R"(
    block { name: "inner" input: "x" layer { name: "y" input: "$x" tanh {} } output: "y" }
    block { name: "outer" input: "x"
      layer { name: "l" input: "$x" loop { body: "inner" times: 3 carry { input: "x" output: "y" } } } output: "l" }
    batch: 2
    input { name: "a" shape { dim: 4 } }
    layer { name: "l" input: "a" loop { body: "outer" times: 5 carry { input: "x" output: "l" } } }
    output: "l")";
  for (const bool loops_first : {true, false}) {
    absl::StatusOr<std::unique_ptr<Session>> session =
        MakeSession(kNested, {.training = false, .loops = LoopRule::kRolled});
    ASSERT_TRUE(session.ok()) << session.status().message();
    const std::string path = testing::TempDir() + "trace_of_loops_" + std::to_string(getpid()) + ".json";
    absl::StatusOr<std::unique_ptr<OutputFile>> file = OutputFile::Create(path);
    ASSERT_TRUE(file.ok()) << file.status().message();
    auto trace = std::make_unique<Trace>(*std::move(file), (*session)->compiled(), OpRegistry::Builtin());
    std::vector<StepTime> times((*session)->compiled().executable.steps.size());
    (*session)->executor().SetTimes(times.data());
    ASSERT_TRUE((*session)->Run().ok());
    trace->AddStep(times);
    (*session)->executor().SetTimes(nullptr);
    ASSERT_TRUE(trace->Finish().ok());
    const std::vector<TraceEvent> events = ReadTrace(path);
    std::filesystem::remove(path);
    EXPECT_EQ(std::count_if(events.begin(), events.end(), [](const TraceEvent& e) { return e.cat == "round"; }),
              5 + 5 * 3);
    if (loops_first) {
      session->reset();
      trace.reset();
    } else {
      trace.reset();
      EXPECT_TRUE((*session)->Run().ok());  // which logs nothing any more
    }
  }
}

}  // namespace
}  // namespace snug::core
