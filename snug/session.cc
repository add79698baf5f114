#include "snug/session.h"

#include <absl/strings/str_cat.h>

#include <algorithm>
#include <iterator>
#include <limits>
#include <string>
#include <utility>

#include "engine/compile/memory/memory_settings.h"
#include "snug/internal/convert.h"
#include "snug/internal/engine.h"
#include "snug/internal/fill.h"
#include "snug/internal/network_impl.h"
#include "snug/internal/plan_report.h"

namespace snug {
inline namespace v0 {
namespace {

using embed::FromEngine;
using embed::Guarded;
using embed::View;

// The program's come first, then the model file's.
absl::StatusOr<core::MemoryOptions> MemoryOptionsOf(const Network::Impl& network, const SessionOptions& options) {
  proto::Memory given;
  for (const Option& option : options.memory_options) SNUG_RETURN_IF_ERROR(embed::SetOption(option, &given));
  if (!options.memory.empty()) given.set_strategy(options.memory);
  if (options.memory_limit > 0) given.set_memory_limit(absl::StrCat(options.memory_limit));
  return core::SettleMemory({{&given, core::OptionPlaces::InProgram()},
                             {&network.network.training().memory(), core::OptionPlaces::InFile(network.locations)}});
}

absl::StatusOr<core::CompileOptions> CompileOptionsOf(const Network::Impl& network, const SessionOptions& options) {
  const core::OptionPlaces places = core::OptionPlaces::InProgram();
  const auto at_least = [&](absl::string_view name, int64_t least, int64_t found) {
    return found >= least ? absl::OkStatus()
                          : places.FlagError(name, absl::StrCat("expected at least ", least, ", found ", found));
  };
  SNUG_RETURN_IF_ERROR(at_least("batch", 0, options.batch));
  SNUG_RETURN_IF_ERROR(at_least("evaluation_batch", 0, options.evaluation_batch));
  SNUG_RETURN_IF_ERROR(at_least("threads", 0, options.threads));
  SNUG_RETURN_IF_ERROR(at_least("streams", 1, options.streams));
  SNUG_RETURN_IF_ERROR(at_least("memory_limit", 0, options.memory_limit));
  const core::CompileSettings settings{.device = options.device,
                                       .batch = options.batch,
                                       .threads = options.threads,
                                       .precision = std::string(core::Name(embed::ToEngine(options.precision))),
                                       .stochastic_rounding = options.stochastic_rounding,
                                       .keep_inputs = options.keep_inputs};
  SNUG_ASSIGN_OR_RETURN(core::CompileOptions compile, core::SettleCompile(settings, options.streams, places));
  compile.training = options.training;
  compile.fetch = options.fetch;
  compile.bound = options.bound;
  SNUG_ASSIGN_OR_RETURN(compile.memory, MemoryOptionsOf(network, options));
  compile.memory.streams = options.streams;
  return compile;
}

// Compiles the program that was asked for, and then one for evaluation, if that was asked for.
absl::StatusOr<std::vector<core::Compiled>> CompileAll(const Network::Impl& network, const SessionOptions& options) {
  SNUG_RETURN_IF_ERROR(network.Check());
  SNUG_ASSIGN_OR_RETURN(core::CompileOptions compile, CompileOptionsOf(network, options));
  std::vector<core::Compiled> all;
  for (const bool evaluation : {false, true}) {
    if (evaluation && options.evaluation_batch == 0) continue;
    if (evaluation) {
      compile.training = false;
      compile.batch = options.evaluation_batch;
    }
    SNUG_ASSIGN_OR_RETURN(core::Compiled compiled,
                          core::Compile(network.network, network.locations, *network.ops, compile));
    all.push_back(std::move(compiled));
  }
  return all;
}

Result<std::vector<std::string>> NamesOf(const std::vector<core::Endpoint>& endpoints) {
  std::vector<std::string> names;
  for (const core::Endpoint& endpoint : endpoints) names.push_back(endpoint.name);
  return names;
}

absl::StatusOr<core::SessionOptions> EngineOptionsOf(const SessionOptions& options) {
  core::SessionOptions result{.seed = options.seed};
  if (!options.engine.empty()) {
    absl::StatusOr<core::ExecutorKind> kind = core::ParseExecutor(options.engine);
    if (!kind.ok()) return core::Annotate(kind.status(), "option \"engine\"");
    result.engine = *kind;
  }
  if (!(options.watchdog >= 0)) {
    return absl::InvalidArgumentError(absl::StrCat("option \"watchdog\": expected seconds, found ", options.watchdog));
  }
  if (options.watchdog_report && options.watchdog == 0) {
    return absl::InvalidArgumentError(
        "option \"watchdog_report\": expected seconds in \"watchdog\" beside it, found none");
  }
  result.watchdog = {.seconds = options.watchdog, .report = options.watchdog_report};
  return result;
}

// Without a way to its bytes, which to ask for would count as feeding.
Result<Tensor> TypeOf(const std::vector<core::Endpoint>& endpoints, std::string_view name, std::string_view kind) {
  std::string known;
  for (const core::Endpoint& endpoint : endpoints) {
    if (endpoint.name == name) return embed::ToTensor(name, core::ValueView{&endpoint.type, nullptr});
    absl::StrAppend(&known, known.empty() ? "" : ", ", endpoint.name);
  }
  return Status(StatusCode::kNotFound, absl::StrCat("no ", View(kind), " \"", View(name), "\"; there are: ", known));
}

// All programs share a step arena, which is as large as the largest step needs. So that program's figures are the
// session's.
absl::StatusOr<core::Compiled> LargestProgram(const Network::Impl& network, const SessionOptions& options) {
  absl::StatusOr<std::vector<core::Compiled>> compiled = CompileAll(network, options);
  if (!compiled.ok()) return compiled.status();
  if (absl::Status shared = core::ShareState(absl::MakeSpan(*compiled)); !shared.ok()) return shared;
  return *std::max_element(std::make_move_iterator(compiled->begin()), std::make_move_iterator(compiled->end()),
                           [](const core::Compiled& a, const core::Compiled& b) {
                             return a.executable.memory.step_bytes() < b.executable.memory.step_bytes();
                           });
}

MemoryFigures FiguresOf(const core::MemoryPlan& plan) {
  return {.strategy = plan.strategy,
          .state_bytes = plan.state_plan.arena_bytes,
          .step_bytes = plan.step_bytes(),
          .lower_bound = plan.lower_bound(),
          .proven = plan.proven()};
}

}  // namespace

struct Program::Impl {
  core::Session* session = nullptr;
  size_t index = 0;

  auto& program() const { return session->program(index); }
  const core::Compiled& compiled() const { return program().compiled(); }
};

struct Session::Impl {
  std::shared_ptr<const embed::OutsideOps> ops;  // the compiled nodes may point into them
  std::unique_ptr<core::Session> session;
  Program::Impl first, evaluation;
  bool evaluates = false;
};

Status Program::Feed(std::string_view name, const Numbers& numbers) noexcept {
  return Guarded([&]() -> Status {
    const absl::StatusOr<core::ValueView> view = impl_->program().Input(View(name));
    if (!view.ok()) return FromEngine(view.status());
    return FromEngine(embed::Store(name, *view, numbers));
  });
}

Status Program::Run(std::initializer_list<Fed> feeds) noexcept {
  for (const Fed& fed : feeds) {
    if (Status status = Feed(fed.name, fed.numbers); !status.ok()) return status;
  }
  return Guarded([&]() -> Status { return FromEngine(impl_->session->Run(impl_->index)); });
}

Result<int64_t> Program::SizeOfOutput(std::string_view name) noexcept {
  return Guarded([&]() -> Result<int64_t> {
    const absl::StatusOr<core::ValueView> view = impl_->program().Output(View(name));
    if (!view.ok()) return FromEngine(view.status());
    return view->type->num_elements();
  });
}

Status Program::FetchInto(std::string_view name, DType dtype, void* out, int64_t size) noexcept {
  return Guarded([&]() -> Status {
    const Result<Tensor> output = Output(name);
    if (!output.ok()) return output.status();
    return FromEngine(
        embed::ConvertElements(name, Numbers(output->data, size, output->dtype), embed::ToEngine(dtype), out));
  });
}

Result<double> Program::FetchScalar(std::string_view name) noexcept {
  return Guarded([&]() -> Result<double> {
    const absl::StatusOr<double> value = impl_->program().FetchScalar(View(name));
    if (!value.ok()) return FromEngine(value.status());
    return *value;
  });
}

Result<Tensor> Program::Input(std::string_view name) noexcept {
  return Guarded([&] { return embed::ToTensor(name, impl_->program().Input(View(name))); });
}

Result<Tensor> Program::Output(std::string_view name) noexcept {
  return Guarded([&] { return embed::ToTensor(name, impl_->program().Output(View(name))); });
}

Result<Tensor> Program::InputType(std::string_view name) const noexcept {
  return Guarded([&] { return TypeOf(impl_->compiled().executable.inputs, name, "input"); });
}

Result<Tensor> Program::OutputType(std::string_view name) const noexcept {
  return Guarded([&] { return TypeOf(impl_->compiled().executable.outputs, name, "output"); });
}

Status Program::Bind(std::string_view name, const Buffer& buffer) noexcept {
  static_assert(kBufferAlignment == core::CallerBuffers::kAlignment);
  return Guarded([&]() -> Status {
    // The const_cast is safe because const memory is bound with `writable` false.
    return FromEngine(impl_->program().Bind(View(name), {.data = const_cast<void*>(buffer.data()),
                                                         .dtype = embed::ToEngine(buffer.dtype()),
                                                         .elements = buffer.size(),
                                                         .writable = buffer.writable()}));
  });
}

Result<std::vector<std::string>> Program::inputs() const noexcept {
  return Guarded([&] { return NamesOf(impl_->compiled().executable.inputs); });
}

Result<std::vector<std::string>> Program::outputs() const noexcept {
  return Guarded([&] { return NamesOf(impl_->compiled().executable.outputs); });
}

int64_t Program::batch() const noexcept { return impl_->compiled().batch; }

Result<MemoryFigures> Program::memory() const noexcept {
  return Guarded([&]() -> Result<MemoryFigures> { return FiguresOf(impl_->compiled().executable.memory); });
}

Session::Session(std::unique_ptr<Impl> impl) noexcept : impl_(std::move(impl)) {}
Session::Session(Session&& other) noexcept = default;
Session& Session::operator=(Session&& other) noexcept = default;
Session::~Session() = default;

Result<Session> Session::Create(const Network& network, const SessionOptions& options) noexcept {
  if (network.impl_ == nullptr) return network.status();
  return Guarded([&]() -> Result<Session> {
    absl::StatusOr<std::vector<core::Compiled>> compiled = CompileAll(*network.impl_, options);
    if (!compiled.ok()) return FromEngine(compiled.status());
    const absl::StatusOr<core::SessionOptions> engine_options = EngineOptionsOf(options);
    if (!engine_options.ok()) return FromEngine(engine_options.status());
    absl::StatusOr<std::unique_ptr<core::Session>> session =
        core::Session::Create(*std::move(compiled), *engine_options);
    if (!session.ok()) return FromEngine(session.status());
    auto impl = std::make_unique<Impl>();
    impl->ops = network.impl_->ops;
    impl->session = *std::move(session);
    impl->first = {impl->session.get(), 0};
    impl->evaluation = {impl->session.get(), 1};
    impl->evaluates = options.evaluation_batch > 0;
    return Session(std::move(impl));
  });
}

Result<MemoryFigures> Session::Plan(const Network& network, const SessionOptions& options) noexcept {
  if (network.impl_ == nullptr) return network.status();
  return Guarded([&]() -> Result<MemoryFigures> {
    const absl::StatusOr<core::Compiled> largest = LargestProgram(*network.impl_, options);
    if (!largest.ok()) return FromEngine(largest.status());
    return FiguresOf(largest->executable.memory);
  });
}

Result<std::string> Session::PlanReport(const Network& network, const SessionOptions& options) noexcept {
  if (network.impl_ == nullptr) return network.status();
  return Guarded([&]() -> Result<std::string> {
    const absl::StatusOr<core::Compiled> largest = LargestProgram(*network.impl_, options);
    if (!largest.ok()) return FromEngine(largest.status());
    return embed::PlanReport(*largest);
  });
}

Result<std::vector<std::string>> Session::Strategies(bool slow) noexcept {
  return Guarded([&]() -> Result<std::vector<std::string>> {
    std::vector<std::string> names;
    for (const core::memory::Strategy& strategy : core::memory::Strategies()) {
      if (strategy.slow == slow) names.emplace_back(strategy.name);
    }
    if (!slow) names.emplace_back(core::kDynamicMemory);
    return names;
  });
}

void Session::Stop(bool stop) noexcept { impl_->session->Stop(stop); }

Program Session::program() noexcept { return Program(&impl_->first); }

Result<Program> Session::evaluation() noexcept {
  if (impl_->evaluates) return Program(&impl_->evaluation);
  return Guarded([]() -> Result<Program> {
    return Status(StatusCode::kFailedPrecondition,
                  "the session has no program for evaluation: it was created without an evaluation_batch");
  });
}

Status Session::FollowStream(void* stream) noexcept {
  return Guarded(
      [&]() -> Status { return FromEngine(impl_->session->Follow(reinterpret_cast<CUstream_st*>(stream))); });
}

Status Session::Wait() noexcept {
  return Guarded([&]() -> Status { return FromEngine(impl_->session->Finish()); });
}

int64_t Session::steps() const noexcept {
  const absl::StatusOr<core::ValueView> state =
      impl_->session->FindVariable(core::kRandomStateName, core::HostAccess::kRead);
  return state.ok() ? reinterpret_cast<const int64_t*>(state->data)[1] : 0;
}

Status Session::SetLearningRate(double rate) noexcept {
  return Guarded([&]() -> Status {
    if (!(rate >= 0) || rate > std::numeric_limits<double>::max()) {
      return {StatusCode::kInvalidArgument,
              "learning rate: expected a finite number of at least 0, found " + std::to_string(rate)};
    }
    return FromEngine(impl_->session->SetLearningRate(rate));
  });
}

Result<double> Session::learning_rate() noexcept {
  return Guarded([&]() -> Result<double> {
    const absl::StatusOr<std::vector<double>> rate = impl_->session->GetVariable(core::kLearningRateName);
    if (!rate.ok()) return FromEngine(rate.status());
    return rate->at(0);
  });
}

Result<std::vector<Variable>> Session::variables() const noexcept {
  return Guarded([&]() -> Result<std::vector<Variable>> {
    std::vector<Variable> all;
    for (const auto& [name, variable] : core::checkpoint::StateVariables(*impl_->session, core::HostAccess::kRead)) {
      all.push_back({.name = name,
                     .type = embed::ToTensor(*variable.view.type, nullptr).type(),
                     .parameter = variable.role == core::VariableRole::kParameter});
    }
    return all;
  });
}

Result<Tensor> Session::FindVariable(std::string_view name) noexcept {
  return Guarded([&] { return embed::ToTensor(name, impl_->session->FindVariable(View(name))); });
}

Status Session::SetVariable(std::string_view name, const Numbers& numbers) noexcept {
  return Guarded([&]() -> Status {
    const absl::StatusOr<core::ValueView> view = impl_->session->FindVariable(View(name));
    if (!view.ok()) return FromEngine(view.status());
    return FromEngine(embed::Store(name, *view, numbers));
  });
}

Result<std::string> Session::Save(const std::string& directory, int keep) noexcept {
  return Guarded([&]() -> Result<std::string> {
    if (keep < 1) {
      return Status(StatusCode::kInvalidArgument, absl::StrCat("keep: expected at least 1, found ", keep));
    }
    core::checkpoint::PosixFileSystem files;
    core::checkpoint::CheckpointStore store(&files, directory, {.keep_last = keep});
    absl::StatusOr<core::checkpoint::CheckpointStore::Saved> saved =
        core::checkpoint::SaveTraining(store, steps(), *impl_->session);
    if (!saved.ok()) return FromEngine(saved.status());
    return std::move(saved->path);
  });
}

Status Session::Restore(const std::string& path, Load what) noexcept {
  return Guarded([&]() -> Status {
    core::checkpoint::PosixFileSystem files;
    const absl::StatusOr<core::checkpoint::CheckpointStore::Found> found =
        core::checkpoint::FindCheckpoint(files, path);
    if (!found.ok()) return FromEngine(found.status());
    if (what == Load::kWeights) {
      return FromEngine(
          core::checkpoint::LoadState(*impl_->session, files, found->path, core::checkpoint::LoadMode::kWeights)
              .status());
    }
    const core::checkpoint::ResumeOptions resume = {
        .other_rounding = what == Load::kContinue,
        .advice = "create the session with the same, or take parameters and statistics alone: Load::kWeights",
        .rounding_advice =
            "create the session with the same, or go on with what only rounds in another way: "
            "Load::kContinue"};
    return FromEngine(core::checkpoint::Resume(*impl_->session, files, found->path, resume).status());
  });
}

int64_t Session::taken_bytes() const noexcept { return impl_->session->state_bytes() + impl_->session->step_bytes(); }

}  // namespace v0
}  // namespace snug
