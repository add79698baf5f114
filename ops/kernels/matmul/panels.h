// Products with a B that is packed once and kept: dense layers of a forward-only program whose weights stand still
// (CompileOptions::keep_derived). Nothing else is packed, so the threads meet once.
//
// Each element of c is one chain of multiply-adds in the order of k, so bits depend neither on blocks nor on threads.
#pragma once

#include <cstdint>

#include "engine/graph/value_type.h"
#include "ops/activation.h"

namespace snug::core {

struct PanelsShape {
  int64_t n = 0, k = 0;
  bool transposed = false;  // the value that is packed is [n, k], not [k, n]
  friend bool operator==(const PanelsShape&, const PanelsShape&) = default;
};

// The layout of a B in panels of a register tile's columns.
Layout PanelsLayout(const PanelsShape& shape);
bool IsPanels(const Layout& layout);

// c [m, n] = activation(a [m, k] B + bias [n]); bias may be null.
struct PanelsCall {
  int64_t m = 0, n = 0, k = 0;
  const float* a = nullptr;
  const float* panels = nullptr;
  const float* bias = nullptr;
  Activation activation = Activation::kIdentity;
  float* c = nullptr;
};
void MultiplyByPanels(int threads, const PanelsCall& call);

}  // namespace snug::core
