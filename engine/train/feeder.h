// Gives the fields of batches to the inputs of a program, by name or, where no name fits, by type and sequence.
#pragma once

#include <absl/status/statusor.h>
#include <absl/types/span.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "engine/run/session/program.h"
#include "engine/train/data/dataset.h"

namespace snug::core {

class Feeder {
 public:
  // `fields` are those of one sample. Fails with InvalidArgument, which names both sides, where an input finds no
  // field, or only one with another number of elements or with values that it does not accept.
  static absl::StatusOr<Feeder> Create(const Program& program, absl::Span<const DataField> fields);

  // Feeds the samples of a batch from `first` on, as many as the program takes.
  absl::Status Feed(absl::Span<const std::byte* const> fields, Program& program, int64_t first = 0) const;

 private:
  struct Link {
    size_t input = 0, field = 0;
    DType from = DType::kFloat32;
  };
  std::vector<Link> links_;  // one for each input
};

}  // namespace snug::core
