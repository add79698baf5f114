// Which convolutions are products of matrices, in which way they are computed, and where that pays.
#pragma once

#include <cstdint>

#include "ops/kernels/conv/node.h"
#include "ops/kernels/conv/row_parts.h"
#include "ops/prepare_context.h"

namespace snug::core::ops {

struct ProductSizes {
  int64_t m, n, k;
};
// Where a convolution goes in steps, its pixels are those that it takes.
ProductSizes SizesOfProduct(ConvPart part, const ConvGeometry& g);

// What multiplies in float leaves bfloat16 to a processor that has products of it.
WhyNot WhyNotInFloat(const NodeTypes& types);
WhyNot WhyNotProduct(ConvPart part, const NodeTypes& types, const ConvNode& node);

enum class ProductWay : uint8_t {
  kPanels,  // ops/kernels/matmul/panels.h
  kBlocks,  // blocked.h there
  kSplit,   // put together from pieces: split_gemm.h
};
ProductWay WayOf(const PrepareContext& c, ConvPart part, const ConvNode& node);

// Says whether the library, if there is one, does as well.
bool ProductLeftToLibrary(const PrepareContext& c, ConvPart part, const ConvNode& node);

// Says whether a product for each tap with kept weights takes less time than the library, if there is one.
bool TapsPay(const ConvGeometry& g);
// Says whether it measures its results in less time than a sweep over them takes.
bool MeasuringProductPays(const ConvGeometry& g);
// Says whether it makes the gradient of a convolution's data, and sums it for the batch norm before (ConvNode::sums),
// in less time than a sweep over it takes.
bool SummingProductPays(const ConvGeometry& g);

}  // namespace snug::core::ops
