// What the passes have to know that give a convolution something else to do on the way: those that make conv_add,
// conv_statistics and conv_grad_input_sums nodes.
#pragma once

#include "engine/graph/value_type.h"

namespace snug::proto {
class Conv;
class ConvGrad;
class FusedConv;
}  // namespace snug::proto

namespace snug::core {

// Says whether a convolution of x with an addition and an activation is as fast as without.
bool ConvolvesAndAdds(const proto::FusedConv& options, const ValueType& x);

// Says whether a convolution of x measures its results on the way in less time than a sweep over them takes.
bool MeasuresAsItConvolves(const proto::Conv& options, const ValueType& x);

// Says whether the gradient of a convolution's data, given dy, is masked and summed on the way for the batch norm
// before it, in less time than a sweep over it takes. `adds`: another gradient is to be added first.
bool SumsAsItConvolvesBack(const proto::ConvGrad& options, const ValueType& dy, bool adds);

}  // namespace snug::core
