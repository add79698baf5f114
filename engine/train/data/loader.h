// Reads batches of a Dataset ahead, with workers of a dependency engine, into a few staging buffers.
//
//   SNUG_ASSIGN_OR_RETURN(const auto loader, Loader::Create(dataset, {.batch = 64, .seed = 1}));
//   for (;;) {
//     SNUG_ASSIGN_OR_RETURN(const Batch* batch, loader->Next());  // without end: epoch after epoch
//     Feed(batch->data[0], batch->data[1]);                       // in the sequence of loader->fields()
//   }
//
// The bytes of a batch depend only on the dataset, the options and the batch's position. The number of workers and
// buffers does not matter, nor whether the loader ran to that position or jumped there.
#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "engine/run/dependency/engine.h"
#include "engine/train/data/dataset.h"
#include "engine/train/data/image_transform.h"
#include "memory/host_arena.h"

namespace snug::core {

struct LoaderOptions {
  enum class LastBatch : uint8_t {
    kDrop,  // leaves out the samples of this epoch that fill no batch
    kPad,   // fills the batch up with DataField::padding; Batch::valid tells how many samples are real
  };
  int64_t batch = 1;  // the number of samples
  uint64_t seed = 0;
  bool shuffle = true;  // the order depends on (seed, epoch); without it, it is that of the dataset
  // With more than 1 and `shuffle`, samples are sorted by length within so many batches at a time, and the batches are
  // gone through in an order of their own, so that a batch has samples of about one length.
  int64_t by_length = 1;
  LastBatch last_batch = LastBatch::kDrop;
  ImageOptions image = {};  // crops, flips and normalises
  int workers = 1;
  int buffers = 3;  // the caller has one of them; the others are read ahead
};

// The position of a batch, which a checkpoint keeps.
struct LoaderPosition {
  int64_t epoch = 0;
  int64_t batch = 0;  // counts within the epoch

  friend bool operator==(LoaderPosition a, LoaderPosition b) { return a.epoch == b.epoch && a.batch == b.batch; }
};

struct Batch {
  LoaderPosition position;
  int64_t valid = 0;                   // samples before this one are real, the others are padding
  std::vector<const std::byte*> data;  // one pointer for each field
};

// Thread-compatible.
class Loader {
 public:
  static absl::StatusOr<std::unique_ptr<Loader>> Create(std::shared_ptr<const Dataset> dataset,
                                                        const LoaderOptions& options);
  ~Loader();
  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;

  const std::vector<DataField>& fields() const { return fields_; }  // types of a batch: [batch, ...]
  int64_t samples() const { return dataset_->size(); }
  int64_t batches_per_epoch() const { return batches_per_epoch_; }
  int64_t samples_per_epoch() const;  // counts real samples only
  int64_t staging_bytes() const { return staging_->size_bytes(); }

  // Returns the batch at position() and goes on to the next one. The batch stays until the next call of Next() or
  // Seek(). After an error, which says epoch, batch and sample, the position stays, and so does the error until Seek().
  absl::StatusOr<const Batch*> Next();

  // The position of the batch that Next() will give. Seek() also accepts the end of an epoch, which is the start of the
  // next one.
  LoaderPosition position() const { return PositionOf(next_); }
  absl::Status Seek(LoaderPosition position);

 private:
  // A staging buffer, and the tag that filling it writes.
  struct Slot {
    Tag tag;
    Batch batch;
    std::vector<std::byte*> fields;
    std::vector<std::byte*> row;  // where the fields of one sample go
    float* scratch = nullptr;
  };

  Loader(std::shared_ptr<const Dataset> dataset, const LoaderOptions& options);
  absl::Status Start();
  // Batches are numbered through all epochs.
  LoaderPosition PositionOf(int64_t number) const { return {number / batches_per_epoch_, number % batches_per_epoch_}; }
  Slot& SlotOf(int64_t number) { return slots_[static_cast<size_t>(number) % slots_.size()]; }
  absl::Status Prefetch(int64_t number);
  absl::Status Fill(int64_t number, Slot& slot) const;
  // The samples of a batch, in their order.
  std::vector<int64_t> SamplesOf(LoaderPosition position) const;
  absl::Status ReadSample(LoaderPosition position, int64_t sample, int64_t row, Slot& slot) const;

  const std::shared_ptr<const Dataset> dataset_;
  const LoaderOptions options_;
  std::vector<DataField> fields_;
  std::vector<int64_t> sample_bytes_;  // by field
  std::optional<ImageTransform> transform_;
  int64_t batches_per_epoch_ = 0;
  int64_t next_ = 0;   // the number of the batch that Next() will give
  bool lent_ = false;  // whether the caller has the batch before next_
  absl::Status error_;
  std::unique_ptr<memory::HostArena> staging_;
  std::vector<Slot> slots_;
  std::unique_ptr<Engine> engine_;  // the last member, because its tasks use the others
};

}  // namespace snug::core
