// A Dataset gives samples by index. All samples have the same fields (an image, its label). Whether they come from
// files or arithmetic is up to its maker, and a held-back part is a Dataset of its own. The Loader (loader.h) decides
// in which order and batches samples are read, and how they are changed.
#pragma once

#include <absl/status/status.h>
#include <absl/types/span.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "engine/graph/value_type.h"

namespace snug::core {

// No loss counts rows with this label: it is the default of `ignore_index` in the losses.
inline constexpr int64_t kIgnoredLabel = -100;

struct DataField {
  std::string name;
  ValueType type;            // the type of one sample, plain
  int64_t max_value = 0;     // integers lie in [0, max_value), except kIgnoredLabel; 0: no bound is known
  int64_t padding = 0;       // fills the samples that a short batch lacks
  std::string made_of = {};  // what its numbers are, for messages: the columns of a table
  // For labels: what each number from 0 to max_value stands for, where the data say so.
  std::vector<std::string> classes = {};
};

// Thread-safe once it is made.
class Dataset {
 public:
  virtual ~Dataset() = default;
  Dataset(const Dataset&) = delete;
  Dataset& operator=(const Dataset&) = delete;

  const std::vector<DataField>& fields() const { return fields_; }
  int64_t size() const { return size_; }  // the number of samples

  // Writes sample `sample`, which lies in [0, size()): each field's bytes go to its pointer, in the sequence of
  // fields(). The error says which file, where in it, and what was expected and found.
  virtual absl::Status Read(int64_t sample, absl::Span<std::byte* const> fields) const = 0;

  // Reads the sample as it is in an epoch, for what is drawn anew in each.
  virtual absl::Status ReadInEpoch(int64_t /*epoch*/, int64_t sample, absl::Span<std::byte* const> fields) const {
    return Read(sample, fields);
  }

  // Returns how long a sample is before it is filled up; 0 where all are as long.
  virtual int64_t LengthOf(int64_t /*sample*/) const { return 0; }

  // Returns what a reader would look the sample up by, as the path of its file; empty where it is only a number.
  virtual std::string NameOf(int64_t /*sample*/) const { return {}; }

 protected:
  Dataset(std::vector<DataField> fields, int64_t size) : fields_(std::move(fields)), size_(size) {}

 private:
  std::vector<DataField> fields_;
  int64_t size_;
};

}  // namespace snug::core
