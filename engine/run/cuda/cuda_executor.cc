#include "engine/run/cuda/cuda_executor.h"

#include <algorithm>
#include <utility>

#include "engine/base/status.h"
#include "engine/cuda/cuda_libraries.h"

namespace snug::core {
namespace {

BoundSteps::Launches LaunchesOf(const Executable& executable, const CudaStreams& streams, bool one_stream) {
  BoundSteps::Launches launches;
  for (const int32_t stream : executable.schedule.stream_of) {
    launches.push_back(streams.launch(one_stream ? 0 : static_cast<size_t>(stream)));
  }
  return launches;
}

bool Mutates(const Executable& executable) {
  return std::any_of(executable.steps.begin(), executable.steps.end(), [](const Step& step) { return step.mutates; });
}

bool OneStream(CudaMode mode) { return mode == CudaMode::kSerial || mode == CudaMode::kDynamic; }

}  // namespace

absl::StatusOr<std::unique_ptr<Executor>> CudaExecutor::Create(const Executable& executable, const ArenaBytes& arenas,
                                                               CudaStreams& streams, CudaMode mode,
                                                               CudaUploads* uploads, cuda::CodeCache& code) {
  SNUG_RETURN_IF_ERROR(streams.GrowTo(OneStream(mode) ? 1 : static_cast<size_t>(executable.schedule.count())));
  SNUG_ASSIGN_OR_RETURN(std::unique_ptr<CudaStaging> staging,
                        CudaStaging::Create(executable, arenas, streams, uploads));
  std::unique_ptr<CudaExecutor> executor(
      new CudaExecutor(executable, arenas, streams, mode, std::move(staging), uploads != nullptr));
  SNUG_RETURN_IF_ERROR(executor->MakeEvents());
  SNUG_RETURN_IF_ERROR(executor->SettleSteps(code));
  return executor;
}

CudaExecutor::CudaExecutor(const Executable& executable, const ArenaBytes& arenas, const CudaStreams& streams,
                           CudaMode mode, std::unique_ptr<CudaStaging> staging, bool ahead)
    : BoundExecutor(executable, arenas, LaunchesOf(executable, streams, OneStream(mode))),
      streams_(streams),
      mode_(mode),
      stream_count_(OneStream(mode) ? 1 : static_cast<size_t>(executable.schedule.count())),
      staging_(std::move(staging)),
      ahead_(ahead),
      mutates_(Mutates(executable)),
      waits_(executable.steps.size()),
      done_(executable.steps.size()),
      graph_(streams.device()),
      was_refused_(executable.steps.size(), 0),
      took_another_(executable.steps.size(), 0) {
  MakeLaunches();
  if (mode != CudaMode::kPushed) return;
  tasks_ = std::make_unique<CudaTasks>(streams, stream_count_);
  if (arenas.blocks != nullptr) block_accesses_ = std::make_unique<BlockAccesses>(executable, *arenas.blocks);
}

void CudaExecutor::MakeLaunches() {
  const bool whole_steps = mode_ == CudaMode::kGraph || mode_ == CudaMode::kStreams;
  if (!whole_steps) return;
  for (LaunchGroup& group : GroupLaunches(executable_.steps, executable_.schedule)) {
    Launch& launch = launches_.emplace_back();
    if (group.steps.size() > 1) {
      for (const size_t step : group.steps) launch.contexts.push_back(steps_.context(step));
    }
    launch.group = std::move(group);
  }
}

absl::Status CudaExecutor::MakeEvents() {
  if (stream_count_ == 1) return absl::OkStatus();
  const auto make = [this](std::unique_ptr<cuda::CudaEvent>* event) -> absl::Status {
    if (*event != nullptr) return absl::OkStatus();
    SNUG_ASSIGN_OR_RETURN(*event, cuda::CudaEvent::Create(streams_.device()));
    return absl::OkStatus();
  };
  for (const auto& [a, b] : executable_.schedule.waits) {
    if (tasks_ != nullptr) break;
    waits_[static_cast<size_t>(b)].push_back(a);
    SNUG_RETURN_IF_ERROR(make(&done_[static_cast<size_t>(a)]));
  }
  SNUG_RETURN_IF_ERROR(make(&forked_));
  joined_.resize(stream_count_ - 1);
  for (auto& event : joined_) SNUG_RETURN_IF_ERROR(make(&event));
  return absl::OkStatus();
}

// Does all compiling and choosing of algorithms now, so that none happens while a step runs.
absl::Status CudaExecutor::SettleSteps(cuda::CodeCache& code) {
  SNUG_RETURN_IF_ERROR(streams_.device()->MakeCurrent());
  for (size_t i = 0; i < steps_.size(); ++i) {
    const Step& step = executable_.steps[i];
    if (step.kernel->settle == nullptr) continue;
    const absl::Status status =
        step.kernel->settle({.prepared = step.prepared.get(), .cuda = steps_.context(i).cuda(), .code = &code});
    if (absl::IsUnimplemented(status) && step.instead.kernel != nullptr) {
      Refuse(i, status);
    } else {
      SNUG_RETURN_IF_ERROR(status);
    }
  }
  return absl::OkStatus();
}

void CudaExecutor::Refuse(size_t step, const absl::Status& why) {
  was_refused_[step] = 1;
  steps_.UseInstead(step);
  refused_.push_back({step, std::string(why.message())});
}

// Remembers that the Step's library refused, as it was asked to launch it, the algorithm that it had chosen.
void CudaExecutor::NoteAlgorithm(size_t step) {
  if (executable_.steps[step].kernel->library.empty() || was_refused_[step] != 0) return;
  const std::string* const why = cuda::LibrariesOf(streams_[StreamOf(step)]).TakeRefusedAlgorithm();
  if (why == nullptr || std::exchange(took_another_[step], 1) != 0) return;
  refused_.push_back({.step = step, .why = *why, .another_algorithm = true});
}

size_t CudaExecutor::StreamOf(size_t step) const {
  return stream_count_ == 1 ? 0 : static_cast<size_t>(executable_.schedule.stream_of[step]);
}

void CudaExecutor::Rebind(size_t caller_buffer) {
  BoundExecutor::Rebind(caller_buffer);
  stale_ = true;
}

CudaExecutor::~CudaExecutor() { WaitForRun().IgnoreError(); }

absl::Status CudaExecutor::Run(Failure* failure) {
  SNUG_RETURN_IF_ERROR(Begin(failure));
  return Finish(failure);
}

absl::Status CudaExecutor::Begin(Failure* failure) {
  // Runs that follow a stream of the caller's come one after the other on our first stream, so the host does not wait
  // between them unless it has to read times.
  const bool follows = under_way_ && streams_.caller() != nullptr && times_ == nullptr;
  absl::Status before = follows ? steps_.EndRun(/*complete=*/true) : WaitForRun();
  before.Update(std::exchange(ended_, absl::OkStatus()));
  if (!before.ok()) {
    failure->variables_changed = mutates_;
    return before;
  }
  SNUG_RETURN_IF_ERROR(streams_.device()->MakeCurrent());
  if (times_ != nullptr && step_times_ == nullptr) {
    SNUG_ASSIGN_OR_RETURN(step_times_, CudaStepTimes::Create(streams_.device(), steps_.size()));
  }
  running_.store(true, std::memory_order_relaxed);
  absl::Status status = Ask(failure);
  under_way_ = status.ok();
  if (status.ok()) return status;
  // The runs before this one may have changed Variables, too.
  if (follows && !Wait(/*joined=*/false).ok()) failure->variables_changed |= mutates_;
  return End(std::move(status));
}

absl::Status CudaExecutor::Finish(Failure* /*failure*/) {
  WaitForRun().IgnoreError();  // the error is in ended_
  return std::exchange(ended_, absl::OkStatus());
}

absl::Status CudaExecutor::WaitForRun() {
  if (!std::exchange(under_way_, false)) return absl::OkStatus();
  absl::Status status = streams_.device()->MakeCurrent();
  ended_ = End(std::move(status));
  return ended_;
}

// Waits in any case, so that nothing that was asked for before is under way when this returns.
absl::Status CudaExecutor::End(absl::Status status) {
  status.Update(Wait(/*joined=*/status.ok()));
  status.Update(steps_.EndRun(/*complete=*/status.ok()));
  running_.store(false, std::memory_order_relaxed);
  if (status.ok() && times_ != nullptr && step_times_ != nullptr) {
    status = step_times_->Write(executable_.schedule, times_);
  }
  return status;
}

absl::Status CudaExecutor::Feed(size_t input) {
  if (!ahead_) SNUG_RETURN_IF_ERROR(WaitForRun());
  return staging_->Feed(input);
}

absl::Status CudaExecutor::Fetch(size_t output) {
  SNUG_RETURN_IF_ERROR(WaitForRun());
  return staging_->Fetch(output);
}

absl::Status CudaExecutor::Ask(Failure* failure) {
  const cuda::CallerStream* const caller = streams_.caller();
  if (caller != nullptr) SNUG_RETURN_IF_ERROR(caller->ComesBefore(streams_[0]));
  SNUG_RETURN_IF_ERROR(staging_->BringInputs());
  const bool graph = mode_ == CudaMode::kGraph && loaded_ && times_ == nullptr;
  SNUG_RETURN_IF_ERROR(graph ? LaunchGraph(failure) : AskForSteps(failure));
  loaded_ |= times_ == nullptr || launches_.empty();  // runs with times do not use the launches for several Steps
  SNUG_RETURN_IF_ERROR(staging_->DownloadSmall());
  return caller == nullptr ? absl::OkStatus() : caller->ComesAfter(streams_[0]);
}

absl::Status CudaExecutor::LaunchGraph(Failure* failure) {
  if (stale_ || !graph_.captured()) {
    Failure recording;  // its variables_changed does not count, because nothing runs yet
    const absl::Status captured = graph_.Capture(streams_[0], [&] { return AskForSteps(&recording); });
    failure->step = recording.step;
    SNUG_RETURN_IF_ERROR(captured);
    stale_ = false;
  }
  SNUG_RETURN_IF_ERROR(graph_.Launch(streams_[0]));
  failure->variables_changed = mutates_;
  return absl::OkStatus();
}

absl::Status CudaExecutor::AskForSteps(Failure* failure) {
  if (times_ != nullptr) SNUG_RETURN_IF_ERROR(step_times_->Start(streams_[0]));
  SNUG_RETURN_IF_ERROR(Fork());
  if (tasks_ != nullptr) tasks_->Forget();
  if (times_ == nullptr && !launches_.empty()) {
    for (const Launch& launch : launches_) SNUG_RETURN_IF_ERROR(AskForLaunch(launch, failure));
    return Join();
  }
  for (size_t i = 0; i < steps_.size(); ++i) {
    absl::Status status = tasks_ != nullptr ? PushStep(i, failure) : AskForStep(i, failure);
    if (status.ok()) continue;
    failure->step = i;
    return status;
  }
  return Join();
}

absl::Status CudaExecutor::AskForLaunch(const Launch& launch, Failure* failure) {
  const std::vector<size_t>& steps = launch.group.steps;
  const auto ask = [&]() -> absl::Status {
    if (launch.group.only_waits) return WaitBefore(steps[0]);
    failure->variables_changed |=
        std::any_of(steps.begin(), steps.end(), [this](size_t i) { return executable_.steps[i].mutates; });
    return steps.size() == 1 ? AskForStep(steps[0], failure)
                             : executable_.steps[steps[0]].kernel->together(launch.contexts);
  };
  absl::Status status = ask();
  if (!status.ok()) failure->step = steps[0];
  return status;
}

absl::Status CudaExecutor::WaitBefore(size_t step) {
  for (const int32_t other : waits_[step]) {
    SNUG_RETURN_IF_ERROR(streams_[StreamOf(step)].WaitFor(*done_[static_cast<size_t>(other)]));
  }
  return absl::OkStatus();
}

absl::Status CudaExecutor::RunStep(size_t i) {
  if (arenas_.blocks != nullptr) SNUG_RETURN_IF_ERROR(steps_.TakeBlocks(i));
  return RunTaken(i);
}

// Runs a Step whose blocks are taken. A library may see only now, in the first run, that it has nothing for the Step;
// then its other kernel serves before anything is recorded.
absl::Status CudaExecutor::RunTaken(size_t i) {
  const auto run = [&] { return arenas_.blocks == nullptr ? steps_.Run(i) : steps_.RunOnTaken(i); };
  absl::Status status = run();
  if (status.ok()) NoteAlgorithm(i);
  const bool can_change = executable_.steps[i].instead.kernel != nullptr && was_refused_[i] == 0;
  if (!absl::IsUnimplemented(status) || !can_change) return status;
  Refuse(i, status);
  return run();
}

absl::Status CudaExecutor::AskForStep(size_t i, Failure* failure) {
  cuda::CudaStream& stream = streams_[StreamOf(i)];
  SNUG_RETURN_IF_ERROR(WaitBefore(i));
  if (times_ != nullptr) SNUG_RETURN_IF_ERROR(step_times_->Begin(i, stream));
  failure->variables_changed |= executable_.steps[i].mutates;
  SNUG_RETURN_IF_ERROR(RunStep(i));
  if (times_ != nullptr) SNUG_RETURN_IF_ERROR(step_times_->End(i, stream));
  if (done_[i] != nullptr) SNUG_RETURN_IF_ERROR(stream.Record(*done_[i]));
  return mode_ == CudaMode::kSerial ? stream.Synchronize() : absl::OkStatus();
}

absl::Status CudaExecutor::PushStep(size_t i, Failure* failure) {
  if (arenas_.blocks != nullptr) SNUG_RETURN_IF_ERROR(steps_.TakeBlocks(i));
  const std::vector<Access>& accesses =
      block_accesses_ == nullptr ? executable_.steps[i].accesses : block_accesses_->Of(i);
  cuda::CudaStream& stream = streams_[StreamOf(i)];
  return tasks_->Push(StreamOf(i), accesses, [&]() -> absl::Status {
    if (times_ != nullptr) SNUG_RETURN_IF_ERROR(step_times_->Begin(i, stream));
    failure->variables_changed |= executable_.steps[i].mutates;
    SNUG_RETURN_IF_ERROR(RunTaken(i));
    return times_ == nullptr ? absl::OkStatus() : step_times_->End(i, stream);
  });
}

// Lets the other streams begin when the first one has come here.
absl::Status CudaExecutor::Fork() {
  if (forked_ == nullptr) return absl::OkStatus();
  SNUG_RETURN_IF_ERROR(streams_[0].Record(*forked_));
  for (size_t s = 1; s < stream_count_; ++s) SNUG_RETURN_IF_ERROR(streams_[s].WaitFor(*forked_));
  return absl::OkStatus();
}

// Lets the first stream go on when the others are done.
absl::Status CudaExecutor::Join() {
  for (size_t s = 1; s < stream_count_; ++s) {
    SNUG_RETURN_IF_ERROR(streams_[s].Record(*joined_[s - 1]));
    SNUG_RETURN_IF_ERROR(streams_[0].WaitFor(*joined_[s - 1]));
  }
  return absl::OkStatus();
}

// Waits for the first stream, if all others have joined it, or else for each of them.
absl::Status CudaExecutor::Wait(bool joined) {
  absl::Status status;
  for (size_t s = 0; s < (joined ? 1 : stream_count_); ++s) status.Update(streams_[s].Synchronize());
  return status;
}

std::vector<Executor::At> CudaExecutor::Running() const {
  const bool running = running_.load(std::memory_order_relaxed);
  return std::vector<At>(stream_count_, At{.step = -1, .waiting = running});
}

}  // namespace snug::core
