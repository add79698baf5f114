// Products of bfloat16 values, whose sums are float32 either way. Where the processor has no unit for them, a library
// takes two to three times as long as for float32: the node then computes on float32 copies of its operands, and its
// result is rounded. `snug tune` may choose otherwise.
#pragma once

#include <absl/strings/string_view.h>

#include <string>
#include <vector>

#include "ops/prepare_context.h"

namespace snug::onednn {

// True: the node wants to compute on float32, and `c` says so; nothing else is to be prepared.
bool ComputesInFloat32(PrepareContext& c);
// The library's implementation that was chosen, by its name; empty: the library's own choice.
absl::string_view ChosenImplementation(const PrepareContext& c);
// Adds to what KernelRow::variants lists for values of `dtype` the way that is not taken by itself. `possible`: the
// library has a kernel for the values as they are.
void OfferOtherWay(DType dtype, bool possible, std::vector<std::string>& choices);

}  // namespace snug::onednn
