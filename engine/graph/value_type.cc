#include "engine/graph/value_type.h"

#include <absl/strings/str_cat.h>

#include "engine/base/status.h"

namespace snug::core {

std::string Layout::ToString() const {
  switch (kind) {
    case Kind::kPlain:
      return "";
    case Kind::kChannelsLast:
      return "nhwc";
    case Kind::kPacked:
      return absl::StrCat("packed:", packed->tag());
  }
  return "";
}

bool operator==(const Layout& a, const Layout& b) {
  if (a.kind != b.kind) return false;
  return a.kind != Layout::Kind::kPacked || a.packed == b.packed || a.packed->Equals(*b.packed);
}

int64_t ValueType::size_bytes() const {
  if (layout.kind == Layout::Kind::kPacked) return layout.packed->size_bytes();
  return num_elements() * SizeOf(dtype);
}

Strides ValueType::strides() const {
  SNUG_CHECK(layout.kind != Layout::Kind::kPacked);
  if (layout.plain()) return PlainStrides(shape);
  Strides strides = {};
  strides[1] = 1;
  int64_t stride = shape[1];
  for (int i = shape.rank() - 1; i >= 2; --i) {
    strides[static_cast<size_t>(i)] = stride;
    stride *= shape[i];
  }
  strides[0] = stride;
  return strides;
}

std::string ValueType::ToString() const {
  return absl::StrCat(absl::string_view(Name(dtype)), shape.ToString(), layout.ToString());
}

}  // namespace snug::core
