// From an op's Sample to a node that can run: the types for a dtype and a layout, and numbers for its inputs.
#pragma once

#include <cstdint>
#include <vector>

#include "ops/node_types.h"
#include "ops/op_def.h"
#include "ops/sample_builder.h"
#include "tests/testing/tensor.h"

namespace snug::core::test {

// Input types and options; outputs are left to inference. Channels-last applies to the inputs of full rank (the highest
// among them), except those that always stay plain.
NodeTypes SampleTypes(const OpDef& op, const Sample& sample, DType dtype, Layout layout = {});

// Whether channels-last is anything else than plain for this sample.
bool HasChannelsLastForm(const OpDef& op, const Sample& sample);

// The seed of a sample's numbers: of its name and the op's, so that adding a sample changes no other.
uint64_t SampleSeed(const OpDef& op, const Sample& sample);

// One Tensor for each input, absent ones too. The numbers behind them do not depend on dtype and layout; they are
// rounded to the types.
std::vector<Tensor> SampleValues(const OpDef& op, const Sample& sample, const NodeTypes& types);

// Uniform in [low, high).
std::vector<double> RandomValues(uint64_t seed, int64_t count, double low, double high);

}  // namespace snug::core::test
