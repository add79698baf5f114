// Hands the fields of batches to the inputs of a program: by name, or, where no name fits, by type and sequence.
#pragma once

#include <absl/status/statusor.h>
#include <absl/types/span.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "engine/run/program.h"
#include "engine/train/data/dataset.h"

namespace snug {

class Feeder {
 public:
  // `fields` are those of one sample. InvalidArgument, naming both sides, where an input finds no field, or one of
  // another number of elements, or values that it does not take.
  static absl::StatusOr<Feeder> Create(const Program& program, absl::Span<const DataField> fields);

  // Samples of a batch from `first` on, as many as the program takes.
  absl::Status Feed(absl::Span<const std::byte* const> fields, Program& program, int64_t first = 0) const;

 private:
  struct Link {
    size_t input = 0, field = 0;
    DType from = DType::kFloat32;
  };
  std::vector<Link> links_;  // by input
};

}  // namespace snug
