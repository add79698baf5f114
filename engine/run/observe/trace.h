// Writes a trace of training steps for ui.perfetto.dev or chrome://tracing: what each stream did when, the waits
// between streams as arrows, the memory that was live, and what the host fed and fetched.
//
// The format is the JSON of the Trace Event Format. There is a track for the host, one for each stream, and a counter
// for each arena. The rounds of a loop that stays a node lie within its slice, at most 10,000 of each loop in a step.
// Events go to the file step by step, so even a long trace takes no memory.
#pragma once

#include <absl/status/status.h>
#include <absl/types/span.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine/base/text/json.h"
#include "engine/base/text/output_file.h"
#include "engine/compile/control/rolled_loop.h"
#include "engine/compile/memory/plan_memory.h"
#include "engine/compile/pipeline.h"
#include "engine/run/executors/executor.h"

namespace snug::core {

// Counts the bytes of the step arena that hold something needed, over the time of one run: the plan's lifetimes with
// the times that Steps really took, on the streams they ran on.
class LiveBytes {
 public:
  LiveBytes(const memory::Tasks& tasks, const MemoryPlan& plan);

  struct Sample {
    int64_t ns = 0;
    int64_t bytes = 0;  // live from this time on
  };
  // A value is live from when its Step begins until its last reader is done. What is fed is live from the first Step's
  // turn, and what is fetched until the end of the last Step. When a value is written over in place, its bytes count
  // for the value that takes them.
  std::vector<Sample> During(absl::Span<const StepTime> times) const;

 private:
  struct Life {
    int64_t bytes = 0;
    int32_t producer = -1;         // a Step; -1: it is there before the first one
    std::vector<int32_t> readers;  // Steps
    bool from_start = false, to_end = false;
    bool written_over = false;  // the last reader writes over it
  };
  std::vector<Life> lives_;
};

class Trace {
 public:
  // `compiled` must be there as long as steps are added. Its loops may be gone before this is.
  Trace(std::unique_ptr<OutputFile> file, const Compiled& compiled, const OpRegistry& registry);
  Trace(const Trace&) = delete;
  Trace& operator=(const Trace&) = delete;
  ~Trace();  // no step may run

  // Adds a slice to the host's track.
  void AddHost(absl::string_view name, int64_t begin_ns, int64_t end_ns);
  // Adds one step of training, by the times that Executor::SetTimes asks for.
  void AddStep(absl::Span<const StepTime> times);
  // Makes the file appear. Nothing can be added after that.
  absl::Status Finish();

 private:
  // Begins an event and leaves its object open. `ph` is the format's letter for the kind of event.
  Json Begin(absl::string_view ph, absl::string_view name, int track);
  Json BeginSlice(absl::string_view name, absl::string_view category, int track, int64_t begin_ns, int64_t end_ns);
  void End(Json& json);
  void AddMetadata(absl::string_view what, int track, absl::string_view name);
  void AddCounter(absl::string_view name, int64_t ns, int64_t bytes);
  void AddWait(const StepTime& from, const StepTime& to);
  double Microseconds(int64_t ns) const { return static_cast<double>(ns - origin_ns_) / 1e3; }

  struct StepText {
    std::string name, op, kernel;
    double flops = 0, bytes = 0;
    bool waits = false;  // whether it waits for another stream
  };

  struct Rounds {  // of a loop that stays a node, or of one inside its body
    int32_t step = 0;
    std::string loop;
    std::weak_ptr<const RolledLoop> rolled;
    std::unique_ptr<RoundLog> log;
  };
  void LogRounds(int32_t step, const std::string& name, const KernelChoice& choice);
  void AddRounds(Rounds& rounds, const StepTime& time);

  const std::unique_ptr<OutputFile> file_;
  const Compiled& compiled_;
  const LiveBytes live_;
  const int64_t origin_ns_;  // the zero of the trace's clock
  std::vector<StepText> steps_;
  std::vector<Rounds> rounds_;  // in the sequence of the Steps
  int64_t training_step_ = 0, arrows_ = 0;
  bool first_ = true;
};

}  // namespace snug::core
