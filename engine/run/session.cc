#include "engine/run/session.h"

#include <absl/strings/str_cat.h>

#include <utility>

#include "engine/base/status.h"
#include "engine/compile/import.h"
#include "engine/compile/updates.h"
#include "engine/run/initialize.h"
#include "ops/graph_builder.h"

namespace snug {
namespace {

template <class T>
void Store(absl::Span<const double> values, std::byte* data) {
  T* out = reinterpret_cast<T*>(data);
  for (size_t i = 0; i < values.size(); ++i) out[i] = static_cast<T>(values[i]);
}

absl::Status StoreAs(absl::string_view name, const Session::View& view, absl::Span<const double> values) {
  if (static_cast<int64_t>(values.size()) != view.type->num_elements()) {
    return absl::InvalidArgumentError(absl::StrCat("\"", name, "\" ", view.type->ToString(), ": expected ",
                                                   view.type->num_elements(), " numbers, found ", values.size()));
  }
  switch (view.type->dtype) {
#define SNUG_CASE(enumerator, text, type) \
  case DType::enumerator:                 \
    Store<type>(values, view.data);       \
    break;
    SNUG_DTYPES(SNUG_CASE)
#undef SNUG_CASE
  }
  return absl::OkStatus();
}

template <class T>
std::vector<double> Load(const Session::View& view) {
  const T* in = reinterpret_cast<const T*>(view.data);
  std::vector<double> values(static_cast<size_t>(view.type->num_elements()));
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<double>(in[i]);
  return values;
}

std::vector<double> LoadAll(const Session::View& view) {
  switch (view.type->dtype) {
#define SNUG_CASE(enumerator, text, type) \
  case DType::enumerator:                 \
    return Load<type>(view);
    SNUG_DTYPES(SNUG_CASE)
#undef SNUG_CASE
  }
  return {};
}

}  // namespace

absl::StatusOr<std::unique_ptr<Session>> Session::Create(Compiled compiled, const SessionOptions& options) {
  SNUG_ASSIGN_OR_RETURN(std::unique_ptr<memory::HostArena> state,
                        memory::HostArena::Create(compiled.executable.memory.state_plan.arena_bytes));
  SNUG_ASSIGN_OR_RETURN(std::unique_ptr<memory::HostArena> step,
                        memory::HostArena::Create(compiled.executable.memory.step.placement.plan.arena_bytes));
  std::unique_ptr<Session> session(new Session(std::move(compiled), std::move(state), std::move(step)));
  const Graph& graph = session->compiled_.graph;
  for (size_t i = 0; i < graph.variables().size(); ++i) {
    if (session->compiled_.tasks.state.buffers[i].size_bytes == 0) continue;
    Initialize(graph.variables()[i], options.seed,
               session->executor_->Address(session->compiled_.executable.variables[i]));
  }
  if (graph.FindVariable(kRandomStateName).valid()) {
    SNUG_ASSIGN_OR_RETURN(const View random, session->FindVariable(kRandomStateName));
    reinterpret_cast<int64_t*>(random.data)[0] = static_cast<int64_t>(options.seed);
    reinterpret_cast<int64_t*>(random.data)[1] = 0;
  }
  if (options.poison) session->StartPoisoning();
  return session;
}

void Session::StartPoisoning() {
  const memory::TaskPlan& step = compiled_.executable.memory.step;
  poison_ = std::make_unique<Poison>(step.problem, step.placement.plan, step.order.size(), step_->data());
  executor_->SetPoison(poison_.get());
}

Session::Session(Compiled compiled, std::unique_ptr<memory::HostArena> state, std::unique_ptr<memory::HostArena> step)
    : compiled_(std::move(compiled)),
      state_(std::move(state)),
      step_(std::move(step)),
      consumed_(compiled_.executable.inputs.size(), 0) {
  executor_ = std::make_unique<SerialExecutor>(compiled_.executable, state_->data(), step_->data());
}

absl::StatusOr<size_t> Session::Find(const std::vector<Endpoint>& endpoints, absl::string_view name,
                                     absl::string_view kind) {
  std::string known;
  for (size_t i = 0; i < endpoints.size(); ++i) {
    if (endpoints[i].name == name) return i;
    absl::StrAppend(&known, known.empty() ? "" : ", ", endpoints[i].name);
  }
  return absl::NotFoundError(absl::StrCat("no ", kind, " \"", name, "\"; there are: ", known));
}

absl::StatusOr<Session::View> Session::Input(absl::string_view name) {
  SNUG_ASSIGN_OR_RETURN(const size_t i, Find(compiled_.executable.inputs, name, "input"));
  consumed_[i] = 0;
  return ViewOf(compiled_.executable.inputs[i]);
}
absl::StatusOr<Session::View> Session::Output(absl::string_view name) {
  SNUG_ASSIGN_OR_RETURN(const size_t i, Find(compiled_.executable.outputs, name, "output"));
  return ViewOf(compiled_.executable.outputs[i]);
}

absl::StatusOr<Session::View> Session::FindVariable(absl::string_view name) {
  const VariableId id = compiled_.graph.FindVariable(name);
  if (!id.valid()) return absl::NotFoundError(absl::StrCat("no variable \"", name, "\""));
  const memory::Buffer& buffer = compiled_.tasks.state.buffers[static_cast<size_t>(id.index)];
  if (buffer.size_bytes == 0) {
    return absl::NotFoundError(
        absl::StrCat("variable \"", name, "\" is a constant that nothing reads: it has no bytes"));
  }
  return View{&compiled_.graph.variable(id).type,
              executor_->Address(compiled_.executable.variables[static_cast<size_t>(id.index)])};
}

absl::Status Session::Feed(absl::string_view name, absl::Span<const double> values) {
  SNUG_ASSIGN_OR_RETURN(const View view, Input(name));
  return StoreAs(name, view, values);
}

absl::StatusOr<std::vector<double>> Session::Fetch(absl::string_view name) {
  SNUG_ASSIGN_OR_RETURN(const View view, Output(name));
  return LoadAll(view);
}

absl::StatusOr<double> Session::FetchScalar(absl::string_view name) {
  SNUG_ASSIGN_OR_RETURN(const std::vector<double> values, Fetch(name));
  if (values.size() != 1)
    return absl::InvalidArgumentError(
        absl::StrCat("output \"", name, "\" has ", values.size(), " elements, expected one"));
  return values[0];
}

absl::Status Session::SetVariable(absl::string_view name, absl::Span<const double> values) {
  SNUG_ASSIGN_OR_RETURN(const View view, FindVariable(name));
  return StoreAs(name, view, values);
}

absl::StatusOr<std::vector<double>> Session::GetVariable(absl::string_view name) {
  SNUG_ASSIGN_OR_RETURN(const View view, FindVariable(name));
  return LoadAll(view);
}

absl::Status Session::SetLearningRate(double rate) { return SetVariable(kLearningRateName, {rate}); }

absl::Status Session::ConsumeInputs() {
  const std::vector<Endpoint>& inputs = compiled_.executable.inputs;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (consumed_[i]) {
      return absl::FailedPreconditionError(
          absl::StrCat("input \"", inputs[i].name,
                       "\" was consumed by the step before: feed it again, or compile with `keep_inputs`"));
    }
    consumed_[i] = !inputs[i].kept;
  }
  return absl::OkStatus();
}

absl::Status Session::Run() {
  SNUG_RETURN_IF_ERROR(ConsumeInputs());
  size_t failed = 0;
  absl::Status status = executor_->Run(&failed);
  if (status.ok()) return status;
  const Node& node = compiled_.graph.node(compiled_.executable.steps[failed].node);
  return NodeError(node.loc, node.name, node.op, status);
}

}  // namespace snug
