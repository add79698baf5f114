#include "ops/kernels/matmul/onednn_bfloat16.h"

#include "ops/kit/onednn.h"

namespace snug::core::onednn {
namespace {

// The ways, as a tuning calls them.
constexpr absl::string_view kInFloat32 = "float32", kAsTheyAre = "bfloat16";

// What a tuning wants of the library; empty: its own choice, which the name of its row stands for too.
absl::string_view Wanted(const PrepareContext& c) { return c.choice() == "onednn" ? absl::string_view() : c.choice(); }

}  // namespace

bool ComputesBFloat16InFloat32(const PrepareContext& c) {
  const NodeTypes& types = c.types();
  const bool narrow = types.output(0).dtype == DType::kBFloat16 || types.input(0).dtype == DType::kBFloat16;
  return narrow && (Wanted(c) == kInFloat32 || (Wanted(c).empty() && !MultipliesBFloat16()));
}

bool ComputesInFloat32(PrepareContext& c) {
  if (!ComputesBFloat16InFloat32(c)) return false;
  c.WantFloat32();
  return true;
}

absl::string_view ChosenImplementation(const PrepareContext& c) {
  return Wanted(c) == kAsTheyAre ? absl::string_view() : Wanted(c);
}

absl::Status OfferOtherWay(DType dtype, const absl::Status& made, std::vector<std::string>& choices) {
  if (absl::IsUnimplemented(made)) return absl::OkStatus();
  if (made.ok() && dtype == DType::kBFloat16) choices.emplace_back(MultipliesBFloat16() ? kInFloat32 : kAsTheyAre);
  return made;
}

}  // namespace snug::core::onednn
