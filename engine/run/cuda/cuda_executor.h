// Runs the Steps on CUDA streams, by the schedule that the compiler worked out. The whole step is asked for at once,
// streams wait for each other by events, and the host waits once, in Finish. The second run records this as a CUDA
// graph, and from then on it is a single launch. The first run cannot be recorded: kernels and libraries are loaded
// when they are first launched, and that need not be allowed while something is recorded.
#pragma once

#include <atomic>
#include <memory>
#include <utility>
#include <vector>

#include "engine/compile/schedule/launch_groups.h"
#include "engine/cuda/cuda_code_cache.h"
#include "engine/cuda/cuda_graph.h"
#include "engine/run/cuda/cuda_staging.h"
#include "engine/run/cuda/cuda_step_times.h"
#include "engine/run/cuda/cuda_tasks.h"
#include "engine/run/executors/bound_steps.h"
#include "engine/run/executors/dynamic_blocks.h"

namespace snug::core {

enum class CudaMode : uint8_t {
  kGraph,    // a step is recorded once and launched as a whole
  kStreams,  // Steps are asked for anew each time
  kSerial,   // one stream, and the host waits after each Step, so errors name it
  kDynamic,  // one stream, and memory is taken as Steps are asked for
  kPushed,   // the dependency rule is applied as Steps are asked for, whether memory is planned or dynamic
};

class CudaExecutor final : public BoundExecutor {
 public:
  // All but `code` must outlive it. If `uploads` is null, nothing is uploaded ahead.
  static absl::StatusOr<std::unique_ptr<Executor>> Create(const Executable& executable, const ArenaBytes& arenas,
                                                          CudaStreams& streams, CudaMode mode, CudaUploads* uploads,
                                                          cuda::CodeCache& code);
  ~CudaExecutor() override;

  absl::Status Run(Failure* failure) override;
  absl::Status Begin(Failure* failure) override;
  absl::Status Finish(Failure* failure) override;
  std::byte* InputBytes(size_t input) const override { return staging_->InputBytes(input); }
  std::byte* OutputBytes(size_t output) const override { return staging_->OutputBytes(output); }
  absl::Status Feed(size_t input) override;
  absl::Status Fetch(size_t output) override;
  absl::Status UploadAhead() override { return staging_->UploadAhead(); }
  bool UploadedAhead(size_t input) const override { return staging_->IsAhead(input); }
  void Rebind(size_t caller_buffer) override;
  std::vector<Refused> TakeRefused() override { return std::exchange(refused_, {}); }
  std::vector<At> Running() const override;

 private:
  struct Launch {
    LaunchGroup group;
    std::vector<KernelContext> contexts;  // if there are several Steps, which run in one launch
  };

  CudaExecutor(const Executable& executable, const ArenaBytes& arenas, const CudaStreams& streams, CudaMode mode,
               std::unique_ptr<CudaStaging> staging, bool ahead);
  void MakeLaunches();
  absl::Status MakeEvents();
  absl::Status SettleSteps(cuda::CodeCache& code);
  size_t StreamOf(size_t step) const;

  absl::Status Ask(Failure* failure);
  absl::Status LaunchGraph(Failure* failure);
  absl::Status AskForSteps(Failure* failure);
  absl::Status AskForStep(size_t step, Failure* failure);
  absl::Status AskForLaunch(const Launch& launch, Failure* failure);
  absl::Status WaitBefore(size_t step);  // for what the schedule says
  absl::Status PushStep(size_t step, Failure* failure);
  absl::Status RunStep(size_t step);
  absl::Status RunTaken(size_t step);  // for dynamic memory, after its blocks were taken
  void Refuse(size_t step, const absl::Status& why);
  void NoteAlgorithm(size_t step);
  absl::Status Fork();
  absl::Status Join();
  absl::Status Wait(bool joined);
  absl::Status End(absl::Status status);
  absl::Status WaitForRun();

  const CudaStreams& streams_;
  const CudaMode mode_;
  const size_t stream_count_;
  const std::unique_ptr<CudaStaging> staging_;
  const bool ahead_;                                    // whether inputs may be fed while a run is under way
  const bool mutates_;                                  // whether a run changes Variables
  std::vector<std::vector<int32_t>> waits_;             // indexed by Step: the Steps of other streams that it waits for
  std::vector<std::unique_ptr<cuda::CudaEvent>> done_;  // indexed by Step; null: no other stream waits for it
  std::unique_ptr<cuda::CudaEvent> forked_;             // null: there is one stream
  std::vector<std::unique_ptr<cuda::CudaEvent>> joined_;  // one for each stream but the first
  std::vector<Launch> launches_;  // in the sequence in which they are asked for; empty: it goes Step by Step
  cuda::CudaGraph graph_;
  std::unique_ptr<CudaTasks> tasks_;               // null: the schedule says who waits for whom
  std::unique_ptr<BlockAccesses> block_accesses_;  // null: memory is planned, or one stream needs no rule
  std::vector<char> was_refused_;                  // indexed by Step: whether its `instead` serves
  std::vector<char> took_another_;                 // indexed by Step: whether the library took another algorithm
  std::vector<Refused> refused_;                   // what TakeRefused has not told anybody yet
  bool loaded_ = false;                            // every kernel has been asked for before
  bool stale_ = true;                              // whether what the graph has recorded no longer holds
  std::unique_ptr<CudaStepTimes> step_times_;
  bool under_way_ = false;  // a run has begun, and nobody has waited for its end
  absl::Status ended_;      // what became of a run that was waited for; Begin or Finish says it
  std::atomic<bool> running_{false};
};

}  // namespace snug::core
