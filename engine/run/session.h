// Session: a compiled network with its memory and its Variables, ready to step.
//
//   SNUG_ASSIGN_OR_RETURN(std::unique_ptr<Session> session, Session::Create(std::move(compiled), {.seed = 1}));
//   SNUG_RETURN_IF_ERROR(session->Feed("image", absl::MakeConstSpan(pixels)));
//   SNUG_RETURN_IF_ERROR(session->Run());
//   SNUG_ASSIGN_OR_RETURN(double loss, session->FetchScalar("loss"));
//
// Thread-compatible. Running allocates nothing.
#pragma once

#include <absl/status/statusor.h>
#include <absl/types/span.h>

#include <memory>
#include <string>
#include <vector>

#include "engine/compile/pipeline.h"
#include "engine/run/poison.h"
#include "engine/run/serial_executor.h"
#include "memory/host_arena.h"

namespace snug {

struct SessionOptions {
  uint64_t seed = 0;
  bool poison = false;  // debugging: bytes are overwritten as soon as nothing needs them
};

class Session {
 public:
  static absl::StatusOr<std::unique_ptr<Session>> Create(Compiled compiled, const SessionOptions& options);

  // The bytes of something fed, fetched or of a Variable, in its type's layout; valid as long as the session.
  struct View {
    const ValueType* type;
    std::byte* data;
  };
  // An input that one writes to counts as fed. A step consumes what is fed, unless the network was compiled with
  // `keep_inputs`.
  absl::StatusOr<View> Input(absl::string_view name);
  absl::StatusOr<View> Output(absl::string_view name);
  absl::StatusOr<View> FindVariable(absl::string_view name);

  // Copies numbers in or out, converting to or from the value's own element type; sizes must agree.
  absl::Status Feed(absl::string_view name, absl::Span<const double> values);
  absl::StatusOr<std::vector<double>> Fetch(absl::string_view name);
  absl::StatusOr<double> FetchScalar(absl::string_view name);
  absl::Status SetVariable(absl::string_view name, absl::Span<const double> values);
  absl::StatusOr<std::vector<double>> GetVariable(absl::string_view name);
  absl::Status SetLearningRate(double rate);

  // One step. The error names the failing node and where it was written, or an input that was not fed anew.
  absl::Status Run();

  const Compiled& compiled() const { return compiled_; }
  SerialExecutor& executor() { return *executor_; }
  const SerialExecutor& executor() const { return *executor_; }
  const std::byte* state_data() const { return state_->data(); }  // the arena of all Variables
  // What was taken from the system.
  int64_t state_bytes() const { return state_->size_bytes(); }
  int64_t step_bytes() const { return step_->size_bytes(); }

 private:
  Session(Compiled compiled, std::unique_ptr<memory::HostArena> state, std::unique_ptr<memory::HostArena> step);
  absl::StatusOr<size_t> Find(const std::vector<Endpoint>& endpoints, absl::string_view name, absl::string_view kind);
  View ViewOf(const Endpoint& endpoint) const { return {&endpoint.type, executor_->Address(endpoint.slot)}; }
  absl::Status ConsumeInputs();
  void StartPoisoning();

  Compiled compiled_;
  std::unique_ptr<memory::HostArena> state_, step_;
  std::unique_ptr<SerialExecutor> executor_;
  std::unique_ptr<Poison> poison_;  // null: off
  std::vector<char> consumed_;      // by input: its bytes may hold something else by now
};

}  // namespace snug
