#include "engine/train/data/loader.h"

#include <absl/strings/str_cat.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <utility>

#include "engine/base/hash.h"
#include "engine/base/status.h"
#include "engine/run/dependency/dynamic_engine.h"
#include "engine/train/data/permutation.h"

namespace snug::core {
namespace {

constexpr int64_t kAlignment = 64;
constexpr int64_t kMaxEpochs = int64_t{1} << 32;

int64_t RoundUp(int64_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

uint64_t KeyFor(uint64_t seed, absl::string_view purpose) { return MixKeys(seed, HashName(purpose)); }

template <class T>
void FillWith(std::byte* data, int64_t elements, int64_t value) {
  std::fill_n(reinterpret_cast<T*>(data), elements, static_cast<T>(value));
}

void Pad(const DataField& field, std::byte* data, int64_t elements) {
  switch (field.type.dtype) {
#define SNUG_PAD(enumerator, name, type) \
  case DType::enumerator:                \
    return FillWith<type>(data, elements, field.padding);
    SNUG_DTYPES(SNUG_PAD)
#undef SNUG_PAD
  }
}

absl::Status AtLeast(absl::string_view what, int64_t least, int64_t found) {
  if (found >= least) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(what, ": expected at least ", least, ", found ", found));
}

}  // namespace

absl::StatusOr<std::unique_ptr<Loader>> Loader::Create(std::shared_ptr<const Dataset> dataset,
                                                       const LoaderOptions& options) {
  SNUG_RETURN_IF_ERROR(AtLeast("batch", 1, options.batch));
  SNUG_RETURN_IF_ERROR(AtLeast("workers", 1, options.workers));
  SNUG_RETURN_IF_ERROR(AtLeast("buffers", 1, options.buffers));
  SNUG_RETURN_IF_ERROR(AtLeast("by_length", 1, options.by_length));
  SNUG_RETURN_IF_ERROR(AtLeast("samples", 1, dataset->size()));
  std::unique_ptr<Loader> loader(new Loader(std::move(dataset), options));
  SNUG_RETURN_IF_ERROR(loader->Start());
  return loader;
}

Loader::Loader(std::shared_ptr<const Dataset> dataset, const LoaderOptions& options)
    : dataset_(std::move(dataset)), options_(options) {}

Loader::~Loader() {
  if (engine_ != nullptr) engine_->Stop(StopMode::kCancel).IgnoreError();
}

absl::Status Loader::Start() {
  const int64_t size = dataset_->size();
  const int64_t batch = options_.batch;
  batches_per_epoch_ = size / batch;
  if (options_.last_batch == LoaderOptions::LastBatch::kPad && size % batch != 0) ++batches_per_epoch_;
  if (batches_per_epoch_ == 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "batch: expected at most the ", size, " samples there are, since a short batch is dropped; found ", batch));
  }
  if (!options_.image.identity()) {
    SNUG_ASSIGN_OR_RETURN(transform_,
                          ImageTransform::Create(dataset_->fields(), options_.image, KeyFor(options_.seed, "image")));
  }

  int64_t slot_bytes = 0;
  for (const DataField& field : dataset_->fields()) {
    DataField batched = field;
    std::vector<int64_t> dims = {batch};
    dims.insert(dims.end(), field.type.shape.dims().begin(), field.type.shape.dims().end());
    absl::StatusOr<Shape> shape = MakeShape(dims);
    if (!shape.ok()) return Annotate(shape.status(), absl::StrCat("a batch of field \"", field.name, "\""));
    batched.type.shape = *shape;
    sample_bytes_.push_back(field.type.size_bytes());
    slot_bytes += RoundUp(batched.type.size_bytes());
    fields_.push_back(std::move(batched));
  }
  const int64_t scratch_bytes = transform_ ? RoundUp(transform_->scratch_floats() * int64_t{sizeof(float)}) : 0;
  slot_bytes += scratch_bytes;
  SNUG_ASSIGN_OR_RETURN(staging_, memory::HostArena::Create(options_.buffers * slot_bytes));
  SNUG_ASSIGN_OR_RETURN(engine_, DynamicEngine::Create({.devices = {{.device = {}, .workers = options_.workers}}}));

  slots_.resize(static_cast<size_t>(options_.buffers));
  std::byte* bytes = staging_->data();
  for (Slot& slot : slots_) {
    slot.tag = engine_->NewTag();
    for (const DataField& field : fields_) {
      slot.fields.push_back(bytes);
      slot.batch.data.push_back(bytes);
      bytes += RoundUp(field.type.size_bytes());
    }
    slot.row.resize(fields_.size());
    slot.scratch = reinterpret_cast<float*>(bytes);
    bytes += scratch_bytes;
  }
  return Seek({});
}

int64_t Loader::samples_per_epoch() const { return std::min(batches_per_epoch_ * options_.batch, dataset_->size()); }

absl::Status Loader::Seek(LoaderPosition position) {
  if (position.epoch < 0 || position.epoch > kMaxEpochs || position.batch < 0 || position.batch > batches_per_epoch_) {
    return absl::InvalidArgumentError(absl::StrCat("position: expected an epoch of at least 0 and a batch from 0 to ",
                                                   batches_per_epoch_, ", found epoch ", position.epoch, ", batch ",
                                                   position.batch));
  }
  SNUG_RETURN_IF_ERROR(engine_->AcknowledgeAll());
  error_ = absl::OkStatus();
  lent_ = false;
  next_ = position.epoch * batches_per_epoch_ + position.batch;
  for (int64_t i = 0; i < options_.buffers; ++i) SNUG_RETURN_IF_ERROR(Prefetch(next_ + i));
  return absl::OkStatus();
}

absl::StatusOr<const Batch*> Loader::Next() {
  if (!error_.ok()) return error_;
  if (std::exchange(lent_, false)) SNUG_RETURN_IF_ERROR(Prefetch(next_ - 1 + options_.buffers));
  Slot& slot = SlotOf(next_);
  error_ = engine_->Wait(slot.tag);
  if (!error_.ok()) return error_;
  ++next_;
  lent_ = true;
  return &slot.batch;
}

absl::Status Loader::Prefetch(int64_t number) {
  Slot& slot = SlotOf(number);
  const Region tag = slot.tag;
  return engine_->Push({.writes = absl::MakeConstSpan(&tag, 1)}, [this, number, &slot] { return Fill(number, slot); });
}

absl::Status Loader::Fill(int64_t number, Slot& slot) const {
  const LoaderPosition position = PositionOf(number);
  const std::vector<int64_t> samples = SamplesOf(position);
  slot.batch.position = position;
  slot.batch.valid = static_cast<int64_t>(samples.size());
  for (int64_t row = 0; row < slot.batch.valid; ++row) {
    const int64_t sample = samples[static_cast<size_t>(row)];
    const absl::Status status = ReadSample(position, sample, row, slot);
    if (!status.ok()) {
      return Annotate(status, absl::StrCat("epoch ", position.epoch, ", batch ", position.batch, ", sample ", sample));
    }
  }
  for (size_t f = 0; f < fields_.size(); ++f) {
    const int64_t missing = options_.batch - slot.batch.valid;
    Pad(fields_[f], slot.fields[f] + slot.batch.valid * sample_bytes_[f],
        missing * (fields_[f].type.num_elements() / options_.batch));
  }
  return absl::OkStatus();
}

std::vector<int64_t> Loader::SamplesOf(LoaderPosition position) const {
  const auto key = [&](absl::string_view purpose) {
    return MixKeys(KeyFor(options_.seed, purpose), static_cast<uint64_t>(position.epoch));
  };
  const bool sorts = options_.shuffle && options_.by_length > 1;
  // Samples that fill no batch and are dropped take no part in the sorting: the longest would always be among them.
  const int64_t used = std::min(dataset_->size(), batches_per_epoch_ * options_.batch);
  const int64_t batch =
      sorts ? Permutation(batches_per_epoch_, key("order of batches"))(position.batch) : position.batch;
  const int64_t together = sorts ? std::min(options_.by_length, batches_per_epoch_) : 1;
  const int64_t group = batch / together * together;
  const int64_t begin = group * options_.batch;
  const int64_t end = std::min(used, (group + together) * options_.batch);
  const Permutation order(dataset_->size(), key("order"));
  std::vector<int64_t> samples;
  for (int64_t i = begin; i < end; ++i) samples.push_back(options_.shuffle ? order(i) : i);
  if (!sorts) return samples;
  std::vector<std::pair<int64_t, int64_t>> by_length;  // the length and the sample's place in the epoch
  for (size_t i = 0; i < samples.size(); ++i) {
    by_length.emplace_back(dataset_->LengthOf(samples[i]), static_cast<int64_t>(i));
  }
  std::sort(by_length.begin(), by_length.end());
  std::vector<int64_t> sorted;
  for (const auto& [length, place] : by_length) sorted.push_back(samples[static_cast<size_t>(place)]);
  samples = std::move(sorted);
  const auto first = samples.begin() + (batch - group) * options_.batch;
  return {first, first + std::min<int64_t>(options_.batch, samples.end() - first)};
}

absl::Status Loader::ReadSample(LoaderPosition position, int64_t sample, int64_t row, Slot& slot) const {
  for (size_t f = 0; f < fields_.size(); ++f) slot.row[f] = slot.fields[f] + row * sample_bytes_[f];
  SNUG_RETURN_IF_ERROR(dataset_->ReadInEpoch(position.epoch, sample, slot.row));
  if (transform_) {
    auto* image = reinterpret_cast<float*>(slot.row[transform_->field()]);
    transform_->Apply(position.epoch, sample, image, slot.scratch);
  }
  return absl::OkStatus();
}

}  // namespace snug::core
