// Session: compiled networks with their memory and their Variables, ready to step.
//
//   SNUG_ASSIGN_OR_RETURN(std::unique_ptr<Session> session, Session::Create(std::move(compiled), {.seed = 1}));
//   SNUG_RETURN_IF_ERROR(session->Feed("image", absl::MakeConstSpan(pixels)));
//   SNUG_RETURN_IF_ERROR(session->Run());
//   SNUG_ASSIGN_OR_RETURN(double loss, session->FetchScalar("loss"));
//
// Several programs (training, evaluation, another batch) may live in one session. They share the Variables, by name,
// and the step arena, which is as large as the largest needs: one of them runs at a time, and overwrites what the
// others left there (not where memory is dynamic: what is fed and fetched is each program's own). Where no program is
// named, the first is meant.
//
// Thread-compatible. Running allocates nothing, unless memory is dynamic.
#pragma once

#include <absl/status/statusor.h>
#include <absl/types/span.h>

#include <memory>
#include <optional>
#include <vector>

#include "engine/compile/pipeline.h"
#include "engine/run/backend.h"
#include "engine/run/executors.h"
#include "engine/run/fallbacks.h"
#include "engine/run/poison.h"
#include "engine/run/program.h"
#include "engine/run/watchdog.h"
#include "memory/allocator/places.h"

namespace snug {

struct SessionOptions {
  uint64_t seed = 0;
  std::optional<EngineKind> engine;  // none: the replay, and the serial one where memory is dynamic
  bool poison = false;  // debugging, the serial engine only: bytes are overwritten as soon as nothing needs them
  // Debugging, the serial engine only, one thread per op: a kernel that touches bytes which it does not declare is
  // named (check/check_executor.h).
  bool check_access = false;
  // Where dynamic memory comes from; it must outlive the session, and its options hold. Null: the session's own, with
  // the options that the program was compiled with.
  memory::Places* places = nullptr;
  Fallbacks::Report fallbacks;  // gets what Session::fallbacks() has, as it comes. Null: it goes to standard error
  WatchdogOptions watchdog;     // says where a run is stuck; off
  // Of networks that were compiled for CUDA: whether a step is recorded once and launched as one graph.
  bool cuda_graph = true;
  // On CUDA, for the replay: takes device memory for the inputs of one step more, beside what is planned, so that they
  // can be uploaded while another step runs (Session::UploadAhead). Done without where that does not fit, or takes more
  // than `memory_limit` (0: there is none) together with the arenas: upload_bytes() says.
  bool upload_ahead = false;
  int64_t memory_limit = 0;
  std::shared_ptr<const cuda::CudaDevice>
      cuda_device;  // where they run; null: the one they were compiled for is opened
};

class Session {
 public:
  static absl::StatusOr<std::unique_ptr<Session>> Create(Compiled compiled, const SessionOptions& options);
  static absl::StatusOr<std::unique_ptr<Session>> Create(std::vector<Compiled> compiled, const SessionOptions& options);

  using View = ValueView;

  size_t programs() const { return programs_.size(); }
  Program& program(size_t i) { return *programs_[i]; }
  const Program& program(size_t i) const { return *programs_[i]; }

  // Its bytes, which the next step uses if `access` says that they are written to. On the CPU they are the Variable's
  // own; else a copy, good until the next step.
  absl::StatusOr<View> FindVariable(absl::string_view name, HostAccess access = HostAccess::kReadWrite);
  absl::Status SetVariable(absl::string_view name, absl::Span<const double> values);
  absl::StatusOr<std::vector<double>> GetVariable(absl::string_view name);
  absl::Status SetLearningRate(double rate);

  // One step. The error names the failing node and where it was written, or an input that was not fed anew. A step that
  // fails before any Variable was changed leaves them as the step before did; otherwise the session has failed, and
  // says so from then on.
  absl::Status Run(size_t program = 0);
  // The same in two halves. A device goes on by itself: while it does, the next step can be fed (and is uploaded, with
  // UploadAhead, where upload_bytes() is not 0), Variables and outputs are waited for. Elsewhere Begin does all of it.
  absl::Status Begin(size_t program = 0);
  absl::Status Finish();  // nothing is under way: OK
  // From now on a step comes, on the device, after what this stream of the caller's (a cudaStream_t; null: the default
  // one) was given before Run, and before what it is given after. Run returns when everything is asked for: only who
  // feeds, fetches or looks at Variables waits, or who calls Finish to know what became of the steps.
  // FailedPrecondition on the CPU.
  absl::Status Follow(CUstream_st* stream);
  absl::Status UploadAhead(size_t program = 0) { return programs_[program]->UploadAhead(); }
  // Whether Variables were left half changed.
  bool failed() const { return !failed_.ok(); }
  // Every Variable has been set anew, as from a checkpoint.
  void VariablesRestored();

  // Of the first program.
  absl::StatusOr<View> Input(absl::string_view name) { return program(0).Input(name); }
  absl::StatusOr<View> Output(absl::string_view name) { return program(0).Output(name); }
  absl::Status Feed(absl::string_view name, absl::Span<const double> values) { return program(0).Feed(name, values); }
  absl::StatusOr<std::vector<double>> Fetch(absl::string_view name) { return program(0).Fetch(name); }
  absl::StatusOr<double> FetchScalar(absl::string_view name) { return program(0).FetchScalar(name); }
  const Compiled& compiled() const { return program(0).compiled(); }
  Executor& executor() { return program(0).executor(); }

  const std::byte* state_data() const { return backend_->arenas().state; }  // the arena of all Variables, on its device
  // What was taken from the system, or of the device's memory.
  int64_t state_bytes() const { return backend_->state_bytes(); }
  int64_t step_bytes() const { return backend_->step_bytes() + dynamic_statistics().peak_reserved_bytes; }
  int64_t upload_bytes() const { return backend_->upload_bytes(); }  // beside these; 0: nothing is uploaded ahead
  memory::AllocatorStatistics dynamic_statistics() const;            // of the allocator; all 0 where memory is planned
  // Nodes of any program that was run for which one of CUDA's libraries was to serve, and did not.
  const std::vector<Fallback>& fallbacks() const { return fallbacks_.all(); }

 private:
  Session(std::unique_ptr<Backend> backend, Fallbacks::Report fallbacks)
      : backend_(std::move(backend)), fallbacks_(std::move(fallbacks)) {}
  absl::Status Ended(absl::Status status);
  absl::Status AddProgram(Compiled compiled, const SessionOptions& options);
  absl::StatusOr<memory::Allocator*> AllocatorFor(const Compiled& compiled, const SessionOptions& options);
  absl::Status InitializeVariables(uint64_t seed);
  struct Found {
    const ValueType* type;
    int64_t offset;  // in the state arena
  };
  absl::StatusOr<Found> Find(absl::string_view name) const;

  std::unique_ptr<Backend> backend_;
  std::unique_ptr<Poison> poison_;  // null: off
  // Of dynamic memory. What programs of one session take comes from one allocator.
  std::unique_ptr<memory::Places> places_;
  memory::Allocator* allocator_ = nullptr;
  memory::AllocatorOptions allocator_options_;
  std::vector<std::unique_ptr<Program>> programs_;
  std::unique_ptr<Watchdog> watchdog_;  // null: off
  Fallbacks fallbacks_;
  static constexpr size_t kNone = static_cast<size_t>(-1);
  bool follows_ = false;       // a stream of the caller's
  size_t under_way_ = kNone;   // a program that has begun
  Executor::Failure failure_;  // of it
  absl::Status failed_;
};

}  // namespace snug
