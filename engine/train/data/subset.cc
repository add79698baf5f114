#include <absl/strings/str_cat.h>

#include <algorithm>
#include <utility>

#include "engine/base/hash.h"
#include "engine/base/random.h"
#include "engine/base/status.h"
#include "engine/train/data/permutation.h"
#include "engine/train/data/sources.h"

namespace snug::core {
namespace {

// Has samples [first, first + size) of a permuted dataset.
class Subset final : public Dataset {
 public:
  Subset(std::shared_ptr<const Dataset> whole, const Permutation& order, int64_t first, int64_t size)
      : Dataset(whole->fields(), size), whole_(std::move(whole)), order_(order), first_(first) {}

  absl::Status Read(int64_t sample, absl::Span<std::byte* const> fields) const override {
    return whole_->Read(order_(first_ + sample), fields);
  }
  absl::Status ReadInEpoch(int64_t epoch, int64_t sample, absl::Span<std::byte* const> fields) const override {
    return whole_->ReadInEpoch(epoch, order_(first_ + sample), fields);
  }
  int64_t LengthOf(int64_t sample) const override { return whole_->LengthOf(order_(first_ + sample)); }
  std::string NameOf(int64_t sample) const override { return whole_->NameOf(order_(first_ + sample)); }

 private:
  std::shared_ptr<const Dataset> whole_;
  Permutation order_;
  int64_t first_;
};

// The first `held_back` samples of the permutation are held back.
struct Parts {
  Permutation order;
  int64_t held_back;
};

absl::StatusOr<Parts> PartsOf(int64_t size, double fraction, uint64_t seed) {
  if (!(fraction > 0 && fraction < 1) || size < 2) {
    return absl::InvalidArgumentError(absl::StrCat(
        "held-back part: expected a fraction between 0 and 1 of at least 2 samples, found ", fraction, " of ", size));
  }
  return Parts{Permutation(size, MixKeys(seed, HashName("held back"))),
               std::clamp<int64_t>(static_cast<int64_t>(fraction * static_cast<double>(size)), 1, size - 1)};
}

}  // namespace

absl::StatusOr<PartedDataset> HoldBack(std::shared_ptr<const Dataset> dataset, double fraction, uint64_t seed) {
  const int64_t size = dataset->size();
  SNUG_ASSIGN_OR_RETURN(const Parts parts, PartsOf(size, fraction, seed));
  return PartedDataset{std::make_shared<const Subset>(dataset, parts.order, parts.held_back, size - parts.held_back),
                       std::make_shared<const Subset>(std::move(dataset), parts.order, 0, parts.held_back)};
}

absl::StatusOr<std::vector<int64_t>> TrainingSamples(int64_t size, double fraction, uint64_t seed) {
  SNUG_ASSIGN_OR_RETURN(const Parts parts, PartsOf(size, fraction, seed));
  std::vector<int64_t> samples;
  for (int64_t i = parts.held_back; i < size; ++i) samples.push_back(parts.order(i));
  std::sort(samples.begin(), samples.end());
  return samples;
}

}  // namespace snug::core
