// What a `fused` node stands for: a sequence of elementwise ops (members), each of which computes one element of its
// output from one element of each operand. Operands come before who reads them. All members have one shape and layout;
// what comes from outside may be broadcast. Only the last member may be a reduction, of what the one before it made.
// Values are numbered: first the node's inputs, then the members' outputs.
//
// The node gives the bits that its members would have given one by one: what a member makes is rounded to its dtype.
//
// The members stand in the node's options, each as the OpDef that whoever made the node found in his registry: so an op
// that a program brings may be a member like any other.
#pragma once

#include <absl/status/statusor.h>

#include <vector>

#include "engine/base/options.h"
#include "ops/kit/broadcast.h"
#include "ops/node_types.h"
#include "ops/op_def.h"

namespace snug::core {

inline constexpr int kMostFusedInputs = 12;   // they are pointers among a kernel's arguments, whose size is limited
inline constexpr int kMostFusedMembers = 32;  // more would cost many registers and long compilations

struct FusedMember {
  const OpDef* op = nullptr;
  NodeTypes types;
  std::vector<int> operands;  // numbers of values
};

struct FusedChain {
  std::vector<ValueType> inputs;
  std::vector<FusedMember> members;

  const ValueType& output() const { return members.back().types.output(0); }
  bool reduces() const;
  size_t elementwise() const { return members.size() - (reduces() ? 1 : 0); }  // so many members are elementwise
  // The type of what the last elementwise member makes.
  const ValueType& elements() const { return members[elementwise() - 1].types.output(0); }
  int num_inputs() const { return static_cast<int>(inputs.size()); }
  const ValueType& type(int value) const {
    return value < num_inputs() ? inputs[static_cast<size_t>(value)]
                                : members[static_cast<size_t>(value - num_inputs())].types.output(0);
  }
};

// A member as the options of a node have it. The registry of the op must outlive the options.
struct FusedMemberSpec {
  const OpDef* op;
  Options options;
  std::vector<int> operands;
};
Options FusedOptions(std::vector<FusedMemberSpec> members);

// Reads the chain of a node with these options and inputs. Fails with InvalidArgument if they make no chain.
absl::StatusOr<FusedChain> ReadFusedChain(const NodeTypes& types);

// Says how an operand of a member lies under the output.
BroadcastView ViewOfOperand(const FusedMember& member, int operand);

}  // namespace snug::core
