// Packed layouts of our own: each knows how its bytes are made, so `reorder` makes any of them.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "engine/base/dtype.h"
#include "engine/graph/value_type.h"

namespace snug::core {

class OwnFormat : public PackedFormat {
 public:
  // `from` is a row-major value of float or BFloat16; `to` has size_bytes() bytes.
  virtual void Pack(int threads, const float* from, void* to) const = 0;
  virtual void Pack(int threads, const BFloat16* from, void* to) const = 0;

 protected:
  OwnFormat(std::string tag, int64_t size_bytes) : PackedFormat(std::move(tag), size_bytes) {}
};

// Null: the layout is another.
inline const OwnFormat* OwnFormatOf(const Layout& layout) {
  return dynamic_cast<const OwnFormat*>(layout.packed.get());
}

}  // namespace snug::core
