// What a `fused` node stands for: elementwise ops (members), each of which computes one element of its output from one
// element of each operand, in a sequence in which operands come first. All have one shape and layout;
// what comes from outside may be broadcast. Only the last member may be a reduction, of what the one before it made.
// Values are numbered: the node's inputs, then the members' outputs.
//
// The node gives the bits that its members would have given one by one: what a member makes is rounded to its dtype.
#pragma once

#include <absl/status/statusor.h>
#include <absl/types/span.h>

#include <vector>

#include "engine/base/options.h"
#include "ops/lib/broadcast.h"
#include "ops/node_types.h"
#include "ops/op_def.h"

namespace snug {

inline constexpr int kMostFusedInputs = 12;   // pointers among a kernel's arguments
inline constexpr int kMostFusedMembers = 32;  // a bound on registers, and on what one compilation costs

struct FusedMember {
  const OpDef* op = nullptr;
  NodeTypes types;
  std::vector<int> operands;  // values
};

struct FusedChain {
  std::vector<ValueType> inputs;
  std::vector<FusedMember> members;

  const ValueType& output() const { return members.back().types.output(0); }
  bool reduces() const;
  size_t elementwise() const { return members.size() - (reduces() ? 1 : 0); }  // members that are
  const ValueType& elements() const {
    return members[elementwise() - 1].types.output(0);
  }  // what the last of them made
  int num_inputs() const { return static_cast<int>(inputs.size()); }
  const ValueType& type(int value) const {
    return value < num_inputs() ? inputs[static_cast<size_t>(value)]
                                : members[static_cast<size_t>(value - num_inputs())].types.output(0);
  }
};

// Of a node with these options and inputs. InvalidArgument where they make no chain.
absl::StatusOr<FusedChain> ReadFusedChain(const NodeTypes& types);

// How an operand of a member lies under the output.
BroadcastView ViewOfOperand(const FusedMember& member, int operand);

// A member, as the options of a node have it.
struct FusedMemberSpec {
  absl::string_view op;
  Options options;
  std::vector<int> operands;
};
Options FusedOptions(absl::Span<const FusedMemberSpec> members);

}  // namespace snug
