#include "engine/run/session/program.h"

#include <absl/strings/str_cat.h>

#include <algorithm>
#include <utility>

#include "engine/base/status.h"
#include "memory/problem.h"
#include "ops/graph_builder.h"

namespace snug::core {

Program::Program(std::unique_ptr<Compiled> compiled, std::unique_ptr<DynamicBlocks> blocks,
                 std::unique_ptr<CallerBuffers> caller_buffers, std::unique_ptr<Executor> executor)
    : compiled_(std::move(compiled)),
      blocks_(std::move(blocks)),
      caller_buffers_(std::move(caller_buffers)),
      executor_(std::move(executor)),
      consumed_(compiled_->executable.inputs.size(), 0) {}

absl::StatusOr<size_t> Program::Find(const std::vector<Endpoint>& endpoints, absl::string_view name,
                                     absl::string_view kind) {
  std::string known;
  for (size_t i = 0; i < endpoints.size(); ++i) {
    if (endpoints[i].name == name) return i;
    absl::StrAppend(&known, known.empty() ? "" : ", ", endpoints[i].name);
  }
  return absl::NotFoundError(absl::StrCat("no ", kind, " \"", name, "\"; there are: ", known));
}

absl::StatusOr<ValueView> Program::Input(absl::string_view name) {
  const std::vector<Endpoint>& inputs = compiled_->executable.inputs;
  SNUG_ASSIGN_OR_RETURN(const size_t i, Find(inputs, name, "input"));
  if (inputs[i].slot.arena == Arena::kCaller) {
    return absl::FailedPreconditionError(absl::StrCat(
        "input \"", name, "\" is bound: a step reads the caller's buffer; fill that one, or Bind another"));
  }
  SNUG_RETURN_IF_ERROR(executor_->Feed(i));
  consumed_[i] = 0;
  return ValueView{&inputs[i].type, executor_->InputBytes(i)};
}

absl::StatusOr<ValueView> Program::Output(absl::string_view name) {
  const std::vector<Endpoint>& outputs = compiled_->executable.outputs;
  SNUG_ASSIGN_OR_RETURN(const size_t i, Find(outputs, name, "output"));
  const bool of_caller = outputs[i].slot.arena == Arena::kCaller;
  if (of_caller && executor_->OutputBytes(i) == nullptr) {
    return absl::FailedPreconditionError(absl::StrCat("output \"", name, "\": no buffer is bound for it yet"));
  }
  if (outputs_lost_ && !of_caller) {
    return absl::FailedPreconditionError(absl::StrCat(
        "output \"", name, "\": another program of the session has run since; fetch before, or run this one again"));
  }
  SNUG_RETURN_IF_ERROR(executor_->Fetch(i));
  return ValueView{&outputs[i].type, executor_->OutputBytes(i)};
}

absl::Status Program::Bind(absl::string_view name, const Given& given) {
  SNUG_ASSIGN_OR_RETURN(const size_t buffer, caller_buffers_->Bind(name, given));
  executor_->Rebind(buffer);
  return absl::OkStatus();
}

void Program::BindOwn(size_t i, std::byte* data) {
  caller_buffers_->BindOwn(i, data);
  executor_->Rebind(i);
}

std::vector<std::vector<std::byte>> Program::CopyOfInputs() const {
  const std::vector<Endpoint>& inputs = compiled_->executable.inputs;
  std::vector<std::vector<std::byte>> copies(inputs.size());
  for (size_t i = 0; i < inputs.size(); ++i) {
    const bool waits = !consumed_[i] && inputs[i].slot.arena != Arena::kCaller && !executor_->UploadedAhead(i);
    if (!waits) continue;
    const std::byte* bytes = executor_->InputBytes(i);
    copies[i].assign(bytes, bytes + inputs[i].type.size_bytes());
  }
  return copies;
}

absl::Status Program::FeedAgain(const std::vector<std::vector<std::byte>>& inputs) {
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i].empty()) continue;
    SNUG_ASSIGN_OR_RETURN(const ValueView view, Input(compiled_->executable.inputs[i].name));
    std::copy(inputs[i].begin(), inputs[i].end(), view.data);
  }
  return absl::OkStatus();
}

absl::Status Program::Feed(absl::string_view name, absl::Span<const double> values) {
  SNUG_ASSIGN_OR_RETURN(const ValueView view, Input(name));
  return StoreNumbers(name, view, values);
}

absl::StatusOr<std::vector<double>> Program::Fetch(absl::string_view name) {
  SNUG_ASSIGN_OR_RETURN(const ValueView view, Output(name));
  return LoadNumbers(view);
}

absl::StatusOr<double> Program::FetchScalar(absl::string_view name) {
  SNUG_ASSIGN_OR_RETURN(const std::vector<double> values, Fetch(name));
  if (values.size() == 1) return values[0];
  return absl::InvalidArgumentError(
      absl::StrCat("output \"", name, "\" has ", values.size(), " elements, expected one"));
}

absl::Status Program::ConsumeInputs() {
  const std::vector<Endpoint>& inputs = compiled_->executable.inputs;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (consumed_[i]) {
      return absl::FailedPreconditionError(absl::StrCat(
          "input \"", inputs[i].name, "\" ",
          inputs[i].kept ? "is gone, as a step failed when it began or another program has run: feed it again"
                         : "was consumed by the step before: feed it again, or compile with `keep_inputs`"));
    }
    consumed_[i] = !inputs[i].kept;
  }
  return absl::OkStatus();
}

absl::Status Program::Begin(Executor::Failure* failure) {
  SNUG_RETURN_IF_ERROR(caller_buffers_->CheckReady());
  SNUG_RETURN_IF_ERROR(ConsumeInputs());
  const absl::Status status = executor_->Begin(failure);
  outputs_lost_ = false;
  if (!status.ok() && failure->step == Executor::kNoStep) LoseInputs();  // nobody knows whether they arrived
  return WithPlace(status, *failure);
}

absl::Status Program::Finish(Executor::Failure* failure) { return WithPlace(executor_->Finish(failure), *failure); }

absl::Status Program::WithPlace(const absl::Status& status, const Executor::Failure& failure) const {
  if (status.ok() || failure.step == Executor::kNoStep) return status;
  const Node& node = compiled_->graph.node(compiled_->executable.steps[failure.step].node);
  return NodeError(node.loc, node.name, node.op, status);
}

void Program::LoseInputs() {
  const std::vector<Endpoint>& inputs = compiled_->executable.inputs;
  for (size_t i = 0; i < inputs.size(); ++i) {
    consumed_[i] = inputs[i].slot.arena != Arena::kCaller && !executor_->UploadedAhead(i);
  }
}

void Program::Overwritten() {
  LoseInputs();
  outputs_lost_ = true;
}

UploadLayout LayOutUploads(const Executable& executable, int64_t alignment) {
  UploadLayout layout;
  for (const Endpoint& input : executable.inputs) {
    const bool uploaded = input.slot.arena != Arena::kCaller;
    layout.offsets.push_back(uploaded ? layout.bytes : -1);
    if (uploaded) layout.bytes += memory::AlignUp(input.type.size_bytes(), alignment);
  }
  return layout;
}

}  // namespace snug::core
