// One compiled network of a Session (training, evaluation, another batch) with its executor, and what is fed, run and
// fetched. The Session makes it, and owns the Variables.
#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "engine/compile/executable.h"
#include "engine/compile/pipeline.h"
#include "engine/run/executors/dynamic_blocks.h"
#include "engine/run/executors/executor.h"
#include "engine/run/session/caller_buffers.h"
#include "engine/run/session/value_view.h"

namespace snug::core {

class Program {
 public:
  // `blocks` are those of dynamic memory, or null.
  Program(std::unique_ptr<Compiled> compiled, std::unique_ptr<DynamicBlocks> blocks,
          std::unique_ptr<CallerBuffers> caller_buffers, std::unique_ptr<Executor> executor);

  // The bytes of something fed or fetched, valid as long as the session. Asking for an input counts as feeding it. A
  // step consumes what is fed, unless the network was compiled with `keep_inputs`.
  absl::StatusOr<ValueView> Input(absl::string_view name);
  absl::StatusOr<ValueView> Output(absl::string_view name);
  // Sets the caller's buffer for an input or output of CompileOptions::bound, from the next step on, until another is
  // bound. The caller owns the buffer, and fills an input's buffer directly. Allocates nothing.
  absl::Status Bind(absl::string_view name, const Given& given);

  // Copies numbers in or out, and converts them to or from the value's own element type. Sizes must agree.
  absl::Status Feed(absl::string_view name, absl::Span<const double> values);
  absl::StatusOr<std::vector<double>> Fetch(absl::string_view name);
  absl::StatusOr<double> FetchScalar(absl::string_view name);

  const Compiled& compiled() const { return *compiled_; }
  Executor& executor() { return *executor_; }

  // Only the Session calls what follows. Sets where the i-th of the bound values lies, within the session's own bytes.
  void BindOwn(size_t i, std::byte* data);
  // Copies of what waits for the next run; FeedAgain feeds them after another program has run.
  std::vector<std::vector<std::byte>> CopyOfInputs() const;
  absl::Status FeedAgain(const std::vector<std::vector<std::byte>>& inputs);
  // Runs one step.
  absl::Status Begin(Executor::Failure* failure);
  absl::Status Finish(Executor::Failure* failure);
  absl::Status UploadAhead() { return executor_->UploadAhead(); }
  // Tells that another program runs over the same arena, so that what was fed and is to be fetched is gone.
  void Overwritten();

 private:
  absl::StatusOr<size_t> Find(const std::vector<Endpoint>& endpoints, absl::string_view name, absl::string_view kind);
  absl::Status ConsumeInputs();
  void LoseInputs();  // the next run finds no inputs except the caller's and those that wait ahead
  absl::Status WithPlace(const absl::Status& status, const Executor::Failure& failure) const;

  // Each member points into those before it.
  std::unique_ptr<Compiled> compiled_;
  std::unique_ptr<DynamicBlocks> blocks_;
  std::unique_ptr<CallerBuffers> caller_buffers_;
  std::unique_ptr<Executor> executor_;
  std::vector<char> consumed_;  // by input: whether its bytes may hold something else by now
  bool outputs_lost_ = false;
};

// Says where the inputs of a step wait on the device for their turn (SessionOptions::upload_ahead): one behind the
// other. Only one batch waits at a time, so the programs of a session share these bytes.
struct UploadLayout {
  std::vector<int64_t> offsets;  // by input; < 0: it lies where the caller says, and is never uploaded
  int64_t bytes = 0;
};

UploadLayout LayOutUploads(const Executable& executable, int64_t alignment);

}  // namespace snug::core
