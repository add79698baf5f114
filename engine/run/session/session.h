// A Session has compiled networks with their memory and their Variables, ready to step.
//
//   SNUG_ASSIGN_OR_RETURN(std::unique_ptr<Session> session, Session::Create(std::move(compiled), {.seed = 1}));
//   SNUG_RETURN_IF_ERROR(session->Feed("image", absl::MakeConstSpan(pixels)));
//   SNUG_RETURN_IF_ERROR(session->Run());
//   SNUG_ASSIGN_OR_RETURN(double loss, session->FetchScalar("loss"));
//
// Several programs (training, evaluation, another batch) may live in one session. They share the Variables, by name,
// and the step arena, which is as large as the largest needs. One of them runs at a time, and overwrites what the
// others left in the arena; with dynamic memory, what is fed and fetched stays each program's own. Where no program is
// named, the first is meant.
//
// Thread-compatible. Running allocates nothing, unless memory is dynamic.
#pragma once

#include <absl/status/statusor.h>
#include <absl/types/span.h>

#include <atomic>
#include <memory>
#include <optional>
#include <vector>

#include "engine/compile/pipeline.h"
#include "engine/run/executors/executor.h"
#include "engine/run/executors/serial_executor.h"
#include "engine/run/observe/watchdog.h"
#include "engine/run/session/backend.h"
#include "engine/run/session/fallbacks.h"
#include "engine/run/session/program.h"
#include "memory/allocator/places.h"

namespace snug::core {

struct SessionOptions {
  uint64_t seed = 0;
  std::optional<ExecutorKind> engine;  // none: the replay, or the serial one with dynamic memory or poison
  bool poison = false;  // for debugging with the serial engine: overwrites bytes as soon as nothing needs them
  // Names a kernel that touches bytes it does not declare (check/check_executor.h). This is for debugging, with the
  // serial engine and one thread per op.
  bool check_access = false;
  // The source of dynamic memory. It must outlive the session, and its options are used. Null: the session has its own,
  // with the options that the program was compiled with.
  memory::Places* places = nullptr;
  Fallbacks::Report fallbacks;  // gets what Session::fallbacks() has, as it comes. Null: it goes to standard error
  bool strict_kernels = false;  // a node that a library was to serve, and does not, is an error
  WatchdogOptions watchdog;     // says where a run is stuck; off
  // Whether a step is recorded once and launched as one CUDA graph. Nothing to networks that were not compiled for
  // CUDA.
  bool cuda_graph = true;
  // Lets the replay on CUDA take device memory for another step's inputs in addition to what is planned, so that they
  // can be uploaded while a step runs (Session::UploadAhead). It is dropped where it does not fit, or where it and the
  // arenas take more than `memory_limit` (0: there is none); upload_bytes() tells.
  bool upload_ahead = false;
  int64_t memory_limit = 0;
  std::shared_ptr<const cuda::CudaDevice>
      cuda_device;  // where the programs run; null: the session opens the device that they were compiled for
};

class Session {
 public:
  static absl::StatusOr<std::unique_ptr<Session>> Create(Compiled compiled, const SessionOptions& options);
  static absl::StatusOr<std::unique_ptr<Session>> Create(std::vector<Compiled> compiled, const SessionOptions& options);

  using View = ValueView;

  size_t programs() const { return programs_.size() - derivations_; }
  Program& program(size_t i) { return *programs_[i]; }
  const Program& program(size_t i) const { return *programs_[i]; }

  // Returns the Variable's bytes, which the next step uses if `access` says that they are written. On the CPU they are
  // the Variable's own; elsewhere they are a copy that is valid until the next step. What programs keep that follows
  // from Variables (CompileOptions::keep_derived) notices what was written before the next step; for later steps, ask
  // anew.
  absl::StatusOr<View> FindVariable(absl::string_view name, HostAccess access = HostAccess::kReadWrite);
  absl::Status SetVariable(absl::string_view name, absl::Span<const double> values);
  absl::StatusOr<std::vector<double>> GetVariable(absl::string_view name);
  absl::Status SetLearningRate(double rate);

  // Runs one step. The error names the failing node and where it was written, or an input that was not fed anew. If a
  // step fails before any Variable has changed, they stay as they were; otherwise the session has failed, and says so
  // from then on.
  absl::Status Run(size_t program = 0);
  // These do the same in two halves. A device goes on by itself: meanwhile the next step can be fed (and is uploaded,
  // with UploadAhead, where upload_bytes() is not 0), and asking for Variables and outputs waits for the step.
  // Elsewhere Begin does everything.
  absl::Status Begin(size_t program = 0);
  absl::Status Finish();  // OK when nothing is under way
  // From now on a step comes, on the device, after all that this stream of the caller's was given before Run, and
  // before all that it is given afterwards. The stream is a cudaStream_t; null is the default one. Run returns when
  // everything is queued. Feeding, fetching and looking at Variables wait, and so does Finish, which tells what became
  // of the steps. Fails with FailedPrecondition on the CPU.
  absl::Status Follow(CUstream_st* stream);
  // Ends the step under way, and those that begin, as soon as may be, until Stop(false): Executor::StopWhere. Any
  // thread may call it at any time, and a signal handler too. Inputs of a step that was stopped are to be fed anew.
  void Stop(bool stop) { stop_.store(stop, std::memory_order_relaxed); }
  absl::Status UploadAhead(size_t program = 0) { return programs_[program]->UploadAhead(); }
  // Tells whether Variables were left half changed.
  bool failed() const { return !failed_.ok(); }
  // Tells that every Variable has been set anew, for instance from a checkpoint.
  void VariablesRestored();

  // These are for the first program.
  absl::StatusOr<View> Input(absl::string_view name) { return program(0).Input(name); }
  absl::StatusOr<View> Output(absl::string_view name) { return program(0).Output(name); }
  absl::Status Feed(absl::string_view name, absl::Span<const double> values) { return program(0).Feed(name, values); }
  absl::StatusOr<std::vector<double>> Fetch(absl::string_view name) { return program(0).Fetch(name); }
  absl::StatusOr<double> FetchScalar(absl::string_view name) { return program(0).FetchScalar(name); }
  const Compiled& compiled() const { return program(0).compiled(); }
  uint64_t seed() const { return seed_; }  // of SessionOptions
  ExecutorKind engine() const { return engine_; }
  Executor& executor() { return program(0).executor(); }

  const std::byte* state_data() const { return backend_->arenas().state; }  // the arena of all Variables, on its device
  // The bytes taken from the system, or from the device's memory.
  int64_t state_bytes() const { return backend_->state_bytes(); }
  int64_t step_bytes() const { return backend_->step_bytes() + dynamic_statistics().peak_reserved_bytes; }
  int64_t upload_bytes() const { return backend_->upload_bytes(); }  // 0: nothing is uploaded ahead
  memory::AllocatorStatistics dynamic_statistics() const;            // the allocator's; all 0 where memory is planned
  // Nodes of any program that a library was to serve, but does not. Some refusals of CUDA's libraries show in the first
  // run only.
  const std::vector<Fallback>& fallbacks() const { return fallbacks_.all(); }

 private:
  static constexpr size_t kNone = static_cast<size_t>(-1);
  Session(std::unique_ptr<Backend> backend, Fallbacks fallbacks, const SessionOptions& options)
      : seed_(options.seed), backend_(std::move(backend)), fallbacks_(std::move(fallbacks)) {}
  absl::Status Start(size_t program);
  // Computes what the program has derived from Variables, if these have been set since.
  absl::Status Derive(size_t program);
  void VariablesSet();
  absl::Status Ended(absl::Status status);
  absl::Status AddProgram(Compiled compiled, const SessionOptions& options);
  absl::StatusOr<memory::Allocator*> AllocatorFor(const Compiled& compiled, const SessionOptions& options);
  void BindDerived();
  absl::Status InitializeVariables();
  struct Found {
    const ValueType* type;
    int64_t offset;  // where it lies in the state arena
    VariableRole role;
  };
  absl::StatusOr<Found> Find(absl::string_view name) const;

  const uint64_t seed_;
  std::atomic<bool> stop_{false};
  ExecutorKind engine_ = ExecutorKind::kReplay;
  std::unique_ptr<Backend> backend_;
  std::unique_ptr<Poison> poison_;  // null: off
  // These are for dynamic memory. All programs of a session take from one allocator.
  std::unique_ptr<memory::Places> places_;
  memory::Allocator* allocator_ = nullptr;
  memory::AllocatorOptions allocator_options_;
  std::vector<std::unique_ptr<Program>> programs_;  // the caller's, then those that derive Variables for these
  size_t derivations_ = 0;                          // how many of the latter there are
  struct Derived {
    size_t derivation = kNone;  // the program that computes what this one keeps; kNone: it keeps nothing
    bool stale = true;
  };
  std::vector<Derived> derived_;        // by the caller's program
  std::unique_ptr<Watchdog> watchdog_;  // null: off
  Fallbacks fallbacks_;
  bool follows_ = false;       // whether it follows a stream of the caller's
  size_t under_way_ = kNone;   // the program that has begun, if any
  Executor::Failure failure_;  // the failure of that program
  absl::Status failed_;
};

}  // namespace snug::core
