#include "ops/kernels/matmul/onednn_bfloat16.h"

#include "ops/kit/onednn.h"

namespace snug::core::onednn {
namespace {

// A tuning may choose these, besides the names of implementations.
constexpr absl::string_view kInFloat32 = "float32", kAsTheyAre = "bfloat16";

}  // namespace

bool ComputesInFloat32(PrepareContext& c) {
  if (c.types().output(0).dtype != DType::kBFloat16) return false;
  if (c.choice() != kInFloat32 && (!c.choice().empty() || MultipliesBFloat16())) return false;
  c.WantFloat32();
  return true;
}

absl::string_view ChosenImplementation(const PrepareContext& c) {
  return c.choice() == kAsTheyAre ? absl::string_view() : c.choice();
}

void OfferOtherWay(DType dtype, bool possible, std::vector<std::string>& choices) {
  if (dtype == DType::kBFloat16 && possible) choices.emplace_back(MultipliesBFloat16() ? kInFloat32 : kAsTheyAre);
}

}  // namespace snug::core::onednn
