// How batches get into a session: the fields of one into the inputs of a program, and those of a training step by step.
#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>
#include <absl/strings/string_view.h>
#include <absl/types/span.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "engine/run/session/program.h"
#include "engine/run/session/session.h"
#include "engine/train/data/dataset.h"
#include "engine/train/data/loader.h"

namespace snug::core {

// Gives the fields of batches to the inputs of a program, by name or, where no name fits, by type and sequence. An
// input that nothing reads, as the labels of a program that only predicts, needs no field.
class Feeder {
 public:
  // `fields` are those of one sample. Fails with InvalidArgument, which names both sides, where an input finds no
  // field, or only one with another number of elements or with values that it does not accept.
  static absl::StatusOr<Feeder> Create(const Program& program, absl::Span<const DataField> fields);

  // Feeds the samples of a batch from `first` on, as many as the program takes.
  absl::Status Feed(absl::Span<const std::byte* const> fields, Program& program, int64_t first = 0) const;

  // Returns the number of the field that `input` takes; nothing where the program has no such input.
  std::optional<size_t> FieldOf(const Program& program, absl::string_view input) const;

 private:
  struct Link {
    size_t input = 0, field = 0;
    DType from = DType::kFloat32;
  };
  std::vector<Link> links_;     // one for each input that has a field
  std::vector<size_t> unread_;  // the inputs without one, which get zeros
};

// Feeds a training its batches, step by step, and part by part where a step has micro-batches. Each part is fed before
// its run or, where the session uploads ahead, while the run before it is under way.
class StepFeed {
 public:
  // `parts` is the number of micro-batches in a step; program 1 runs all but the last, which program 0 runs. All
  // arguments must outlive this.
  StepFeed(Session& session, Loader& loader, const Feeder& feeder, int64_t parts)
      : session_(session), loader_(loader), feeder_(feeder), parts_(parts) {}

  size_t ProgramOf(int64_t part) const { return part + 1 < parts_ ? 1 : 0; }

  // Has fed this part's program when it returns.
  absl::Status Feed(int64_t step, int64_t part);
  // Feeds what comes after this part while this part runs. Does nothing if that cannot be had: an error in the next
  // batch is reported when its step comes.
  void FeedAhead(int64_t step, int64_t part);
  // Feeds the part once more, to another program of the same network.
  absl::Status FeedAgain(int64_t step, int64_t part, Program& program);
  // From now on step 0 takes this batch, numbered through all epochs; steps before the first batch are never fed.
  void BeginAt(int64_t batch) { first_ = batch; }
  // Makes `step` the next one, whatever was fed.
  absl::Status Seek(int64_t step);
  // For how long batches were waited for that were not read yet, in all that was fed since this was last asked.
  int64_t TakeWaitedNanoseconds() { return std::exchange(waited_ns_, 0); }

 private:
  LoaderPosition PositionOf(int64_t step) const;
  absl::Status Read(int64_t step);
  absl::Status FeedInto(int64_t part, Program& program) const;

  Session& session_;
  Loader& loader_;
  const Feeder& feeder_;
  const int64_t parts_;
  int64_t first_ = 0;             // the batch of step 0
  const Batch* batch_ = nullptr;  // the batch of the step that was read last
  int64_t batch_step_ = -1;
  int64_t waited_ns_ = 0;
  int64_t ahead_ = -1;  // the part that was fed before its turn, numbered through all steps; -1: none
  absl::Status ahead_status_;
};

}  // namespace snug::core
