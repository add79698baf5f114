#include "engine/train/step_feed.h"

#include <utility>

#include "engine/base/status.h"

namespace snug::core {

absl::Status StepFeed::Feed(int64_t step, int64_t part) {
  const int64_t number = step * parts_ + part;
  if (std::exchange(ahead_, -1) == number) return ahead_status_;
  SNUG_RETURN_IF_ERROR(Read(step));
  return FeedInto(part, session_.program(ProgramOf(part)));
}

void StepFeed::FeedAhead(int64_t step, int64_t part) {
  if (session_.upload_bytes() == 0) return;
  const bool last = part + 1 == parts_;
  const int64_t next_step = last ? step + 1 : step, next_part = last ? 0 : part + 1;
  const size_t program = ProgramOf(next_part);
  ahead_status_ = [&]() -> absl::Status {
    SNUG_RETURN_IF_ERROR(Read(next_step));
    SNUG_RETURN_IF_ERROR(FeedInto(next_part, session_.program(program)));
    return session_.UploadAhead(program);
  }();
  ahead_ = next_step * parts_ + next_part;
}

absl::Status StepFeed::FeedAgain(int64_t step, int64_t part, Program& program) {
  ahead_ = -1;
  SNUG_RETURN_IF_ERROR(Read(step));
  return FeedInto(part, program);
}

absl::Status StepFeed::Seek(int64_t step) {
  ahead_ = -1;
  batch_ = nullptr;
  return loader_.Seek(PositionOf(step));
}

LoaderPosition StepFeed::PositionOf(int64_t step) const {
  const int64_t epoch = loader_.batches_per_epoch();
  return {.epoch = step / epoch, .batch = step % epoch};
}

// Steps come in sequence, except one that is looked at again after the next one's batch was read.
absl::Status StepFeed::Read(int64_t step) {
  if (batch_ != nullptr && step == batch_step_) return absl::OkStatus();
  if (!(loader_.position() == PositionOf(step))) SNUG_RETURN_IF_ERROR(Seek(step));
  batch_ = nullptr;
  SNUG_ASSIGN_OR_RETURN(batch_, loader_.Next());
  batch_step_ = step;
  return absl::OkStatus();
}

absl::Status StepFeed::FeedInto(int64_t part, Program& program) const {
  return feeder_.Feed(batch_->data, program, part * program.compiled().batch);
}

}  // namespace snug::core
