// A Dataset: samples by index, each of which has the same fields (an image, its label). Where they come from, files or
// arithmetic, is its maker's matter; so is a held-back part, which is a Dataset of its own. In which order samples are
// read, in which batches and how they are changed is the Loader's (loader.h).
#pragma once

#include <absl/status/status.h>
#include <absl/types/span.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "engine/graph/value_type.h"

namespace snug {

// The label of what no loss counts: the default of `ignore_index` in the losses.
inline constexpr int64_t kIgnoredLabel = -100;

struct DataField {
  std::string name;
  ValueType type;         // of one sample, plain
  int64_t max_value = 0;  // integers lie in [0, max_value), but for kIgnoredLabel; 0: no bound is known
  int64_t padding = 0;    // what fills the samples that a short batch lacks
};

// Thread-safe once made.
class Dataset {
 public:
  virtual ~Dataset() = default;
  Dataset(const Dataset&) = delete;
  Dataset& operator=(const Dataset&) = delete;

  const std::vector<DataField>& fields() const { return fields_; }
  int64_t size() const { return size_; }  // samples

  // Writes sample `sample` in [0, size()): each field's bytes to its pointer, in the sequence of fields(). The error
  // says which file, where in it, what was expected and found.
  virtual absl::Status Read(int64_t sample, absl::Span<std::byte* const> fields) const = 0;

 protected:
  Dataset(std::vector<DataField> fields, int64_t size) : fields_(std::move(fields)), size_(size) {}

 private:
  std::vector<DataField> fields_;
  int64_t size_;
};

}  // namespace snug
