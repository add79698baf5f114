#include "engine/run/observe/trace.h"

#include <absl/strings/str_cat.h>

#include <algorithm>
#include <utility>

#include "engine/compile/memory/memory_report.h"
#include "ops/graph_builder.h"

namespace snug::core {
namespace {

constexpr int kHostTrack = 0;

constexpr size_t kMostRounds = 10'000;  // of a loop in a step

int TrackOf(int32_t stream) { return stream + 1; }

}  // namespace

Trace::Trace(std::unique_ptr<OutputFile> file, const Compiled& compiled, const OpRegistry& registry)
    : file_(std::move(file)),
      compiled_(compiled),
      live_(compiled.tasks.tasks, compiled.executable.memory),
      origin_ns_(MonotonicNanoseconds()) {
  for (const Step& step : compiled.executable.steps) {
    const Node& node = compiled.graph.node(step.node);
    const Cost cost = CostOf(registry.Get(node.op), step.types);
    steps_.push_back({.name = node.name,
                      .op = node.op,
                      .kernel = compiled.kernels[static_cast<size_t>(step.node.index)].Name(),
                      .flops = cost.flops,
                      .bytes = cost.bytes});
    LogRounds(static_cast<int32_t>(steps_.size()) - 1, node.name,
              compiled.kernels[static_cast<size_t>(step.node.index)]);
  }
  const Schedule& schedule = compiled.executable.schedule;
  for (const auto& wait : schedule.waits) steps_[static_cast<size_t>(wait.second)].waits = true;

  file_->Write("{\"displayTimeUnit\": \"ms\", \"traceEvents\": [");
  AddMetadata("process_name", kHostTrack, absl::StrCat("snug ", compiled.graph.name));
  AddMetadata("thread_name", kHostTrack, "host: feed, run, fetch");
  for (int32_t s = 0; s < schedule.count(); ++s) AddMetadata("thread_name", TrackOf(s), absl::StrCat("stream ", s));
}

Trace::~Trace() {
  for (const Rounds& rounds : rounds_) {
    if (const std::shared_ptr<const RolledLoop> loop = rounds.rolled.lock()) loop->SetLog(nullptr);
  }
}

void Trace::LogRounds(int32_t step, const std::string& name, const KernelChoice& choice) {
  const RolledLoop* const loop = RolledLoopOf(choice);
  if (loop == nullptr) return;
  auto log = std::make_unique<RoundLog>();
  log->now_ns = MonotonicNanoseconds;
  log->rounds.resize(kMostRounds);
  loop->SetLog(log.get());
  rounds_.push_back({.step = step, .loop = name, .rolled = loop->weak_from_this(), .log = std::move(log)});
  const Compiled& body = loop->body();
  for (const NodeId id : body.graph.ProgramOrder()) {
    LogRounds(step, absl::StrCat(name, "/", body.graph.node(id).name), body.kernels[static_cast<size_t>(id.index)]);
  }
}

void Trace::AddRounds(Rounds& rounds, const StepTime& time) {
  RoundLog& log = *rounds.log;
  for (size_t i = 0; i < log.count; ++i) {
    const RoundLog::Round& round = log.rounds[i];
    Json json =
        BeginSlice(absl::StrCat("round ", round.number), "round", TrackOf(time.stream), round.begin_ns, round.end_ns);
    json.Key("args").Object().Key("loop").String(rounds.loop).Key("round").Number(round.number);
    json.Key("step").Number(training_step_).End();
    End(json);
  }
  if (log.left_out > 0) {
    const int64_t begin_ns = log.count == 0 ? time.begin_ns : log.rounds[log.count - 1].end_ns;
    Json json =
        BeginSlice(absl::StrCat(log.left_out, " more rounds"), "round", TrackOf(time.stream), begin_ns, begin_ns);
    json.Key("args").Object().Key("loop").String(rounds.loop).Key("step").Number(training_step_).End();
    End(json);
  }
  log.count = 0;
  log.left_out = 0;
}

Json Trace::Begin(absl::string_view ph, absl::string_view name, int track) {
  file_->Write(std::exchange(first_, false) ? "\n" : ",\n");
  Json json;
  json.Object().Key("ph").String(ph).Key("name").String(name);
  json.Key("pid").Number(int64_t{1}).Key("tid").Number(int64_t{track});
  return json;
}

Json Trace::BeginSlice(absl::string_view name, absl::string_view category, int track, int64_t begin_ns,
                       int64_t end_ns) {
  Json json = Begin("X", name, track);
  json.Key("cat").String(category).Key("ts").Number(Microseconds(begin_ns));
  json.Key("dur").Number(static_cast<double>(end_ns - begin_ns) / 1e3);
  return json;
}

void Trace::End(Json& json) {
  json.End();
  file_->Write(json.text());
}

void Trace::AddMetadata(absl::string_view what, int track, absl::string_view name) {
  Json json = Begin("M", what, track);
  json.Key("args").Object().Key("name").String(name).End();
  End(json);
  if (what != "thread_name") return;
  json = Begin("M", "thread_sort_index", track);
  json.Key("args").Object().Key("sort_index").Number(int64_t{track}).End();
  End(json);
}

void Trace::AddCounter(absl::string_view name, int64_t ns, int64_t bytes) {
  Json json = Begin("C", name, kHostTrack);
  json.Key("ts").Number(Microseconds(ns)).Key("args").Object().Key("bytes").Number(bytes).End();
  End(json);
}

// An arrow binds to the slice that is open at its time, so it goes from shortly before the end of one to the begin of
// the other.
void Trace::AddWait(const StepTime& from, const StepTime& to) {
  const auto add = [&](absl::string_view ph, int32_t stream, int64_t ns) {
    Json json = Begin(ph, "wait", TrackOf(stream));
    json.Key("cat").String("wait").Key("id").Number(arrows_).Key("ts").Number(Microseconds(ns));
    if (ph == "f") json.Key("bp").String("e");
    End(json);
  };
  add("s", from.stream, std::max(from.begin_ns, from.end_ns - 1));
  add("f", to.stream, to.begin_ns);
  ++arrows_;
}

void Trace::AddHost(absl::string_view name, int64_t begin_ns, int64_t end_ns) {
  Json json = BeginSlice(name, "host", kHostTrack, begin_ns, end_ns);
  json.Key("args").Object().Key("step").Number(training_step_).End();
  End(json);
}

void Trace::AddStep(absl::Span<const StepTime> times) {
  for (size_t i = 0; i < times.size(); ++i) {
    const StepTime& time = times[i];
    const StepText& step = steps_[i];
    if (step.waits && time.turn_ns < time.begin_ns) {
      Json json = BeginSlice("waiting", "wait", TrackOf(time.stream), time.turn_ns, time.begin_ns);
      json.Key("args").Object().Key("before").String(step.name).Key("step").Number(training_step_).End();
      End(json);
    }
    Json json = BeginSlice(step.name, "step", TrackOf(time.stream), time.begin_ns, time.end_ns);
    json.Key("args").Object().Key("op").String(step.op).Key("kernel").String(step.kernel);
    json.Key("flops").Number(step.flops);
    json.Key("bytes").Number(step.bytes).Key("step").Number(training_step_).End();
    End(json);
  }
  for (Rounds& rounds : rounds_) {
    if (!times.empty()) AddRounds(rounds, times[static_cast<size_t>(rounds.step)]);
  }
  for (const auto& [a, b] : compiled_.executable.schedule.waits) {
    const StepTime& from = times[static_cast<size_t>(a)];
    const StepTime& to = times[static_cast<size_t>(b)];
    if (from.stream != to.stream) AddWait(from, to);  // the serial engine has one stream, whatever the schedule says
  }
  for (const LiveBytes::Sample& sample : live_.During(times)) {
    AddCounter("step arena: live bytes", sample.ns, sample.bytes);
  }
  if (!times.empty()) AddCounter("state arena", times[0].turn_ns, compiled_.executable.memory.state_plan.arena_bytes);
  ++training_step_;
}

absl::Status Trace::Finish() {
  file_->Write("\n]}\n");
  return file_->Finish();
}

LiveBytes::LiveBytes(const memory::Tasks& tasks, const MemoryPlan& plan) {
  std::vector<int32_t> step_of(plan.step.order.size());  // indexed by task
  for (size_t i = 0; i < plan.step.order.size(); ++i) {
    step_of[static_cast<size_t>(plan.step.order[i])] = static_cast<int32_t>(i);
  }
  const std::vector<char> written_over = WrittenOver(plan.step);
  for (size_t i = 0; i < tasks.values.size(); ++i) {
    const memory::TaskValue& value = tasks.values[i];
    Life life{.bytes = value.size_bytes,
              .from_start = value.resident || value.producer < 0,
              .to_end = value.resident || value.fetched,
              .written_over = written_over[i] != 0};
    if (value.producer >= 0) life.producer = step_of[static_cast<size_t>(value.producer)];
    for (const int32_t reader : value.readers) life.readers.push_back(step_of[static_cast<size_t>(reader)]);
    lives_.push_back(std::move(life));
  }
}

std::vector<LiveBytes::Sample> LiveBytes::During(absl::Span<const StepTime> times) const {
  if (times.empty()) return {};
  int64_t start = times[0].turn_ns, end = times[0].end_ns;
  for (const StepTime& time : times) {
    start = std::min(start, time.turn_ns);
    end = std::max(end, time.end_ns);
  }
  const auto time_of = [&](int32_t step) -> const StepTime& { return times[static_cast<size_t>(step)]; };
  std::vector<Sample> changes;
  for (const Life& life : lives_) {
    const int64_t born = life.from_start ? start : time_of(life.producer).begin_ns;
    int64_t gone = life.producer < 0 ? born : time_of(life.producer).end_ns;
    if (life.to_end) {
      gone = end;
    } else if (life.written_over) {
      gone = time_of(*std::max_element(life.readers.begin(), life.readers.end())).begin_ns;
    } else {
      for (const int32_t reader : life.readers) gone = std::max(gone, time_of(reader).end_ns);
    }
    changes.push_back({born, life.bytes});
    changes.push_back({gone, -life.bytes});
  }
  std::sort(changes.begin(), changes.end(), [](const Sample& a, const Sample& b) { return a.ns < b.ns; });
  std::vector<Sample> samples;
  int64_t bytes = 0;
  for (const Sample& change : changes) {
    bytes += change.bytes;
    if (!samples.empty() && samples.back().ns == change.ns) {
      samples.back().bytes = bytes;
    } else {
      samples.push_back({change.ns, bytes});
    }
  }
  return samples;
}

}  // namespace snug::core
