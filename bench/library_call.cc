#include "bench/library_call.h"

#include <absl/strings/str_cat.h>
#include <absl/strings/str_join.h>

namespace snug::core::bench {

double LibraryCall::multiply_adds() const {
  if (kind != Kind::kMatMul) return conv.multiply_adds();
  return static_cast<double>(batch) * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
}

std::string LibraryCall::ToString() const {
  if (kind == Kind::kMatMul) {
    return absl::StrCat("matmul ", Name(dtype), " ", batch, " x [", m, ", ", k, "]", transpose_a ? "^T" : "", " [", k,
                        ", ", n, "]", transpose_b ? "^T" : "");
  }
  const auto join = [](const auto& numbers) { return absl::StrJoin(numbers, "x"); };
  return absl::StrCat("conv ",
                      kind == Kind::kConvForward        ? "forward "
                      : kind == Kind::kConvBackwardData ? "backward data "
                                                        : "backward weights ",
                      Name(dtype), " ", conv.input_shape().ToString(), " ", conv.weight_shape().ToString(), " groups ",
                      conv.groups, " stride ", join(conv.stride), " dilation ", join(conv.dilation), " pad ",
                      join(conv.pad_begin), ":", join(conv.pad_end));
}

}  // namespace snug::core::bench
