#include "engine/run/session/session.h"

#include <absl/strings/str_cat.h>

#include <algorithm>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "engine/base/status.h"
#include "engine/compile/differentiate/differentiate.h"
#include "engine/compile/import/import.h"
#include "engine/compile/memory/share_state.h"
#include "engine/run/check/check_executor.h"
#include "engine/run/session/initialize.h"
#include "engine/run/session/program.h"
#include "memory/share/blocks.h"

namespace snug::core {
namespace {

absl::Status CheckAccessIsPossible(const std::vector<Compiled>& compiled, const SessionOptions& options) {
  if (options.engine != ExecutorKind::kSerial || options.poison) {
    return absl::InvalidArgumentError("checking accesses is for the serial engine, and excludes poison");
  }
  for (const Compiled& program : compiled) {
    if (program.executable.memory.dynamic.has_value()) {
      return absl::InvalidArgumentError("checking accesses goes by a plan: dynamic memory has none");
    }
    if (!program.bound.empty()) {
      return absl::InvalidArgumentError(absl::StrCat("checking accesses guards the plan's bytes: \"",
                                                     program.bound[0].name, "\", which is bound, has none there"));
    }
    if (program.derivation != nullptr) {
      return absl::InvalidArgumentError("checking accesses looks at one program: expected no --keep-derived");
    }
    if (program.threads == 1) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("checking accesses takes one thread per op, found ", program.threads));
  }
  return absl::OkStatus();
}

// Returns the device, which must be the same for all programs.
absl::StatusOr<Device> DeviceOf(const std::vector<Compiled>& compiled) {
  for (const Compiled& program : compiled) {
    if (program.device == compiled[0].device) continue;
    return absl::InvalidArgumentError(absl::StrCat("programs of one session run on one device: expected ",
                                                   compiled[0].device.ToString(), ", found ",
                                                   program.device.ToString()));
  }
  return compiled[0].device;
}

// Returns the bytes for inputs that are uploaded ahead; 0: none are.
int64_t UploadBytes(const std::vector<Compiled>& compiled, int64_t step_bytes, const SessionOptions& options) {
  const Device device = compiled[0].device;
  const bool replays = options.engine.value_or(ExecutorKind::kReplay) == ExecutorKind::kReplay;
  if (!options.upload_ahead || device.kind != Device::Kind::kCuda || !replays) return 0;
  int64_t bytes = 0;
  for (const Compiled& program : compiled) {
    // Dynamic memory may take all up to the limit.
    if (options.memory_limit > 0 && program.executable.memory.dynamic.has_value()) return 0;
    bytes = std::max(bytes, LayOutUploads(program.executable, device.alignment()).bytes);
  }
  const int64_t together = compiled[0].executable.memory.state_plan.arena_bytes + step_bytes + bytes;
  return options.memory_limit > 0 && together > options.memory_limit ? 0 : bytes;
}

// Counts the streams of a GPU whose passing blocks of dynamic memory wait for. It is 1 when blocks go back at once or
// there is only one stream.
int32_t FreeingStreams(const Compiled& compiled, const SessionOptions& options) {
  const std::optional<DynamicMemory>& dynamic = compiled.executable.memory.dynamic;
  const bool waits = dynamic.has_value() && !dynamic->options.garbage.gc_fast;
  const bool pushed = compiled.device.kind == Device::Kind::kCuda && options.engine == ExecutorKind::kDynamic;
  return waits && pushed ? compiled.executable.schedule.count() : 1;
}

absl::Status CheckNoCpuDebugging(Device device, const SessionOptions& options) {
  if (!options.poison && !options.check_access) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(options.poison ? "poison" : "checking accesses",
                                                 " is for the CPU, not for ", device.ToString(),
                                                 ": compute-sanitizer looks for strays on a GPU"));
}

}  // namespace

absl::StatusOr<std::unique_ptr<Session>> Session::Create(Compiled compiled, const SessionOptions& options) {
  std::vector<Compiled> all;
  all.push_back(std::move(compiled));
  return Create(std::move(all), options);
}

absl::StatusOr<std::unique_ptr<Session>> Session::Create(std::vector<Compiled> compiled,
                                                         const SessionOptions& options) {
  if (compiled.empty()) return absl::InvalidArgumentError("a session needs at least one compiled network");
  const size_t programs = compiled.size();
  std::vector<Derived> derived(programs);
  for (size_t i = 0; i < programs; ++i) {
    if (compiled[i].derivation == nullptr) continue;
    derived[i].derivation = compiled.size();
    compiled.push_back(*compiled[i].derivation);
  }
  SNUG_ASSIGN_OR_RETURN(const Device device, DeviceOf(compiled));
  if (device.kind != Device::Kind::kCpu) SNUG_RETURN_IF_ERROR(CheckNoCpuDebugging(device, options));
  if (options.check_access) {
    SNUG_RETURN_IF_ERROR(CheckAccessIsPossible(compiled, options));
    for (Compiled& program : compiled) SNUG_RETURN_IF_ERROR(PadPlan(program));
  }
  Fallbacks fallbacks(options.fallbacks, options.strict_kernels);
  for (const Compiled& program : compiled) SNUG_RETURN_IF_ERROR(fallbacks.AddPassedOver(program));
  SNUG_RETURN_IF_ERROR(ShareState(absl::MakeSpan(compiled), options.check_access ? PadState : memory::PlanNone));
  int64_t step_bytes = 0;
  int32_t freeing_streams = 1;
  for (const Compiled& c : compiled) {
    const MemoryPlan& plan = c.executable.memory;
    if (!plan.dynamic.has_value()) step_bytes = std::max(step_bytes, plan.step_bytes());
    freeing_streams = std::max(freeing_streams, FreeingStreams(c, options));
  }
  SNUG_ASSIGN_OR_RETURN(std::unique_ptr<Backend> backend,
                        MakeBackend({.device = device,
                                     .state_bytes = compiled[0].executable.memory.state_plan.arena_bytes,
                                     .step_bytes = step_bytes,
                                     .upload_bytes = UploadBytes(compiled, step_bytes, options),
                                     .cuda_graph = options.cuda_graph,
                                     .freeing_streams = freeing_streams,
                                     .cuda_device = options.cuda_device}));
  std::unique_ptr<Session> session(new Session(std::move(backend), std::move(fallbacks), options));
  for (size_t i = 0; i < compiled.size(); ++i) {
    SessionOptions of_program = options;
    of_program.poison &= i < programs;
    SNUG_RETURN_IF_ERROR(session->AddProgram(std::move(compiled[i]), of_program));
  }
  session->derived_ = std::move(derived);
  session->derivations_ = compiled.size() - programs;
  session->BindDerived();
  SNUG_RETURN_IF_ERROR(session->InitializeVariables());
  if (options.watchdog.seconds > 0) session->watchdog_ = std::make_unique<Watchdog>(options.watchdog);
  return session;
}

absl::Status Session::AddProgram(Compiled compiled, const SessionOptions& options) {
  auto owned = std::make_unique<Compiled>(std::move(compiled));
  const std::optional<DynamicMemory>& dynamic = owned->executable.memory.dynamic;
  const ExecutorKind engine =
      options.engine.value_or(dynamic.has_value() || options.poison ? ExecutorKind::kSerial : ExecutorKind::kReplay);
  if (programs_.empty()) engine_ = engine;
  ArenaBytes arenas = backend_->arenas();
  auto caller_buffers = std::make_unique<CallerBuffers>(
      owned->executable, static_cast<size_t>(owned->device.alignment()),
      std::vector<absl::Span<const std::byte>>{{arenas.state, static_cast<size_t>(backend_->state_bytes())},
                                               {arenas.step, static_cast<size_t>(backend_->step_bytes())}});
  arenas.caller = caller_buffers->addresses();
  std::unique_ptr<DynamicBlocks> blocks;
  if (dynamic.has_value() && !InfoOf(engine).needs_plan) {
    SNUG_ASSIGN_OR_RETURN(memory::Allocator* const allocator, AllocatorFor(*owned, options));
    const bool several = FreeingStreams(*owned, options) > 1;
    SNUG_ASSIGN_OR_RETURN(
        blocks, DynamicBlocks::Create(*dynamic, allocator,
                                      several ? owned->executable.schedule.stream_of : std::vector<int32_t>()));
    arenas.blocks = blocks.get();
  }
  if (options.poison && dynamic.has_value()) {
    return absl::InvalidArgumentError("poison goes by a plan: dynamic memory has none");
  }
  if (options.poison) {
    if (!programs_.empty() || engine != ExecutorKind::kSerial) {
      return absl::InvalidArgumentError("poison is for the serial engine and a session of one program");
    }
    const memory::TaskPlan& step = owned->executable.memory.step;
    poison_ = std::make_unique<Poison>(step.problem, step.placement.plan, step.order.size(), arenas.step);
  }
  std::unique_ptr<Executor> executor;
  if (options.check_access) {
    executor = std::make_unique<CheckExecutor>(owned->executable, arenas);
  } else {
    Poison* const poison = options.poison ? poison_.get() : nullptr;
    SNUG_ASSIGN_OR_RETURN(executor, backend_->MakeExecutor(engine, owned->executable, arenas, poison));
    SNUG_RETURN_IF_ERROR(fallbacks_.AddRefused(*owned, executor->TakeRefused()));
  }
  executor->StopWhere(&stop_);
  programs_.push_back(
      std::make_unique<Program>(std::move(owned), std::move(blocks), std::move(caller_buffers), std::move(executor)));
  return absl::OkStatus();
}

absl::StatusOr<memory::Allocator*> Session::AllocatorFor(const Compiled& compiled, const SessionOptions& options) {
  const DynamicMemory& memory = *compiled.executable.memory.dynamic;
  const bool on_threads = compiled.device.kind == Device::Kind::kCpu && options.engine.has_value() &&
                          InfoOf(*options.engine).side_by_side && compiled.executable.schedule.count() > 1;
  if (allocator_ != nullptr) {
    if (options.places != nullptr || allocator_options_ == memory.options.allocator) return allocator_;
    return absl::InvalidArgumentError("programs of one session have one allocator: expected one set of its options");
  }
  if (options.places == nullptr) {
    // If a simulation shows that memory will not do, it is better to fail now.
    const int64_t available = backend_->FreeBytes();
    if (available >= 0 && memory.predicted.peak_reserved_bytes > available) {
      SNUG_RETURN_IF_ERROR(Predict(memory, state_bytes(), available).status());
    }
    allocator_options_ = memory.options.allocator;
    SNUG_ASSIGN_OR_RETURN(memory::AllocatorOptions beside, OptionsBeside(allocator_options_, state_bytes()));
    // Where Ops run one after the other, no other thread will ever free anything.
    if (!on_threads) beside.retry_ms = 0;
    places_ = std::make_unique<memory::Places>(beside);
  }
  memory::Places* const places = options.places != nullptr ? options.places : places_.get();
  SNUG_ASSIGN_OR_RETURN(const memory::Place place, backend_->DynamicPlace(places));
  SNUG_ASSIGN_OR_RETURN(allocator_, places->allocator(place));
  if (options.places == nullptr && compiled.executable.schedule.count() > 1) {
    allocator_->set_advice([bytes = memory.predicted.peak_reserved_bytes](const memory::OutOfMemory&) {
      return absl::StrCat("on one worker a step reserves at most ", bytes, " bytes, by simulation");
    });
  }
  return allocator_;
}

memory::AllocatorStatistics Session::dynamic_statistics() const {
  return allocator_ == nullptr ? memory::AllocatorStatistics() : allocator_->statistics();
}

void Session::BindDerived() {
  for (size_t i = 0; i < derived_.size(); ++i) {
    if (derived_[i].derivation == kNone) continue;
    const Compiled& compiled = program(i).compiled();
    Program& derivation = program(derived_[i].derivation);
    const std::vector<CallerBuffer>& kept = derivation.compiled().executable.caller_buffers;
    for (size_t buffer = 0; buffer < kept.size(); ++buffer) {
      const VariableId id = compiled.graph.FindVariable(kept[buffer].name);
      const int64_t offset = compiled.executable.variables[static_cast<size_t>(id.index)].offset;
      derivation.BindOwn(buffer, backend_->arenas().state + offset);
    }
  }
}

absl::Status Session::InitializeVariables() {
  std::set<int64_t> done;  // offsets: what programs share is written once
  for (const auto& program : programs_) {
    const Compiled& compiled = program->compiled();
    for (size_t i = 0; i < compiled.graph.variables().size(); ++i) {
      const Variable& variable = compiled.graph.variables()[i];
      const Slot slot = compiled.executable.variables[i];
      if (variable.role == VariableRole::kDerived) continue;
      if (slot.offset < 0 || !done.insert(slot.offset).second) continue;
      SNUG_ASSIGN_OR_RETURN(std::byte* const data,
                            backend_->OnHost(slot.offset, variable.type.size_bytes(), HostAccess::kWrite));
      Initialize(variable, seed_, data);
      if (variable.name == kRandomStateName) {
        reinterpret_cast<int64_t*>(data)[0] = static_cast<int64_t>(seed_);
        reinterpret_cast<int64_t*>(data)[1] = 0;
      }
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<Session::Found> Session::Find(absl::string_view name) const {
  for (const auto& program : programs_) {
    const Graph& graph = program->compiled().graph;
    const VariableId id = graph.FindVariable(name);
    if (!id.valid()) continue;
    const Slot slot = program->compiled().executable.variables[static_cast<size_t>(id.index)];
    if (slot.offset < 0) {
      return absl::NotFoundError(
          absl::StrCat("variable \"", name, "\" is a constant that nothing reads: it has no bytes"));
    }
    return Found{&graph.variable(id).type, slot.offset, graph.variable(id).role};
  }
  return absl::NotFoundError(absl::StrCat("no variable \"", name, "\""));
}

absl::StatusOr<Session::View> Session::FindVariable(absl::string_view name, HostAccess access) {
  if (follows_ && access != HostAccess::kWrite) SNUG_RETURN_IF_ERROR(Finish());
  SNUG_ASSIGN_OR_RETURN(const Found found, Find(name));
  if (found.role == VariableRole::kDerived) {
    return absl::InvalidArgumentError(
        absl::StrCat("variable \"", name, "\" follows from others and is computed of them: set or read those"));
  }
  SNUG_ASSIGN_OR_RETURN(std::byte* const data, backend_->OnHost(found.offset, found.type->size_bytes(), access));
  if (access != HostAccess::kRead) VariablesSet();
  return View{found.type, data};
}

absl::Status Session::SetVariable(absl::string_view name, absl::Span<const double> values) {
  SNUG_ASSIGN_OR_RETURN(const Found found, Find(name));
  const bool fits = static_cast<int64_t>(values.size()) == found.type->num_elements();  // otherwise nothing is written
  SNUG_ASSIGN_OR_RETURN(const View view, FindVariable(name, fits ? HostAccess::kWrite : HostAccess::kRead));
  return StoreNumbers(name, view, values);
}

absl::StatusOr<std::vector<double>> Session::GetVariable(absl::string_view name) {
  SNUG_ASSIGN_OR_RETURN(const View view, FindVariable(name, HostAccess::kRead));
  return LoadNumbers(view);
}

absl::Status Session::SetLearningRate(double rate) { return SetVariable(kLearningRateName, {rate}); }

absl::Status Session::Run(size_t program) {
  SNUG_RETURN_IF_ERROR(Begin(program));
  return follows_ ? absl::OkStatus() : Finish();
}

absl::Status Session::Follow(CUstream_st* stream) {
  SNUG_RETURN_IF_ERROR(Finish());
  SNUG_RETURN_IF_ERROR(backend_->Follow(stream));
  follows_ = true;
  return absl::OkStatus();
}

void Session::VariablesSet() {
  for (Derived& derived : derived_) derived.stale = true;
}

absl::Status Session::Derive(size_t program) {
  Derived& derived = derived_[program];
  if (derived.derivation == kNone || !derived.stale) return absl::OkStatus();
  // Its step lies where the inputs wait.
  const std::vector<std::vector<std::byte>> inputs = programs_[program]->CopyOfInputs();
  absl::Status computed = Start(derived.derivation);
  if (computed.ok()) computed = Finish();
  derived.stale = !computed.ok();
  SNUG_RETURN_IF_ERROR(programs_[program]->FeedAgain(inputs));
  return computed;
}

absl::Status Session::Begin(size_t program) {
  if (!follows_ || under_way_ != program) SNUG_RETURN_IF_ERROR(Finish());
  SNUG_RETURN_IF_ERROR(failed_);
  SNUG_RETURN_IF_ERROR(Derive(program));
  if (programs_[program]->compiled().training) VariablesSet();
  return Start(program);
}

absl::Status Session::Start(size_t program) {
  SNUG_RETURN_IF_ERROR(backend_->BeforeRun());
  if (watchdog_ != nullptr) watchdog_->BeginRun(*programs_[program]);
  failure_ = {};
  absl::Status status = programs_[program]->Begin(&failure_);
  absl::Status strict =
      fallbacks_.AddRefused(programs_[program]->compiled(), programs_[program]->executor().TakeRefused());
  backend_->AfterRun();
  const auto in_arena = [this](size_t i) { return !programs_[i]->compiled().executable.memory.dynamic.has_value(); };
  for (size_t i = 0; i < programs_.size(); ++i) {
    if (i != program && in_arena(i) && in_arena(program)) programs_[i]->Overwritten();
  }
  if (!status.ok()) return Ended(std::move(status));
  under_way_ = program;
  if (!strict.ok()) {
    Finish().IgnoreError();  // of what was asked for all the same
    return strict;
  }
  if (follows_ && watchdog_ != nullptr) watchdog_->EndRun();  // when it ends, nobody here knows
  return status;
}

absl::Status Session::Finish() {
  if (under_way_ == kNone) return absl::OkStatus();
  return Ended(programs_[std::exchange(under_way_, kNone)]->Finish(&failure_));
}

void Session::VariablesRestored() {
  Finish().IgnoreError();  // an error would be about the old Variables
  VariablesSet();
  failed_ = absl::OkStatus();
}

absl::Status Session::Ended(absl::Status status) {
  if (watchdog_ != nullptr) watchdog_->EndRun();
  if (!status.ok() && failure_.variables_changed) {
    failed_ = absl::FailedPreconditionError(
        absl::StrCat("the session has failed: a step stopped after it had changed some Variables (", status.message(),
                     "); set them all anew, from a checkpoint, or make another session"));
  }
  return status;
}

}  // namespace snug::core
