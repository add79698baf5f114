// Reads the pickles of torch.save, as data: nothing is imported and nothing is run.
//
// A pickle is a program for a stack machine, which may call any function of Python by its name. This reader knows the
// operations that state dicts need and the few functions that they name, and carries none of them out: a call of
// torch._utils._rebuild_tensor_v2 becomes a PickleTensor. Everything else is refused by its name and its place.
#pragma once

#include <absl/status/statusor.h>
#include <absl/strings/string_view.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "engine/train/checkpoint/element_type.h"

namespace snug::core::checkpoint {

// Where the elements of tensors lie. The pickle has only its key.
struct PickleStorage {
  ElementType type = ElementType::kF32;
  absl::string_view key;
  int64_t elements = 0;
  int64_t position = 0;  // where it is named
};

struct PickleTensor {
  size_t storage = 0;  // an index of Pickle::storages
  int64_t offset = 0;  // in elements
  std::vector<int64_t> shape, strides;
  int64_t position = 0;
};

// An object of the pickle, which others hold by its index. Objects may hold each other in a circle.
struct PickleObject {
  enum class Kind : uint8_t { kNone, kBool, kInteger, kFloat, kText, kTuple, kList, kDict, kGlobal, kStorage, kTensor };
  Kind kind = Kind::kNone;
  int64_t integer = 0;         // the number; or the index of the storage or tensor
  absl::string_view text;      // of a global: "module.name"
  std::vector<int32_t> items;  // of a dict: key, value, key, value, ...
};

struct Pickle {
  std::vector<PickleObject> objects;
  std::vector<PickleStorage> storages;  // each key once
  std::vector<PickleTensor> tensors;
  int32_t root = -1;
  int64_t end = 0;  // where the pickle ends in the text

  const PickleObject& object(int32_t index) const { return objects[static_cast<size_t>(index)]; }
  const PickleObject& root_object() const { return object(root); }
};

// Reads the pickle that `text` begins with; there may be more behind it. `text` must outlive the result. Errors say at
// which byte of the file, if the text begins at its byte `base`.
absl::StatusOr<Pickle> ReadPickle(absl::string_view text, int64_t base = 0);

}  // namespace snug::core::checkpoint
