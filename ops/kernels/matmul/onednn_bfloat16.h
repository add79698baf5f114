// Decides how products of bfloat16 values are computed; their sums are float32 in any case. Where the processor has no
// unit for them, a library takes two to three times as long as for float32. The node then computes on float32 copies of
// its operands, and its result is rounded. `snug tune` may choose otherwise.
#pragma once

#include <absl/status/status.h>
#include <absl/strings/string_view.h>

#include <string>
#include <vector>

#include "ops/prepare_context.h"

namespace snug::core::onednn {

// Says whether the node, or its data (input 0), is bfloat16 and is to be computed in float32.
bool ComputesBFloat16InFloat32(const PrepareContext& c);
// Returns true if that is so. `c` has been told to cast then, and there is nothing else to prepare.
bool ComputesInFloat32(PrepareContext& c);
// Returns the name of the library's implementation that was chosen; empty: the library's own choice.
absl::string_view ChosenImplementation(const PrepareContext& c);
// Adds the way that is not taken by default to what KernelRow::variants lists for values of `dtype`. `made` says what
// became of a kernel for the values as they are: if the library has none (Unimplemented), nothing is added.
absl::Status OfferOtherWay(DType dtype, const absl::Status& made, std::vector<std::string>& choices);

}  // namespace snug::core::onednn
