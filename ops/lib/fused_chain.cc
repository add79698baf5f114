#include "ops/lib/fused_chain.h"

#include <absl/strings/str_cat.h>

#include <string>
#include <utility>

#include "engine/base/status.h"
#include "ops/graph_builder.h"
#include "ops/lib/fused_functions.h"
#include "ops/registry.h"
#include "proto/fused.pb.h"
#include "proto/network.pb.h"
#include "proto/options.h"
#include "proto/options_from_text.h"

namespace snug {
namespace {

absl::StatusOr<FusedMember> ReadMember(const proto::Fused::Member& read, const FusedChain& chain) {
  FusedMember member{.op = OpRegistry::Builtin().Find(read.op())};
  if (member.op == nullptr || !CanFuse(read.op())) {
    return absl::InvalidArgumentError("expected an op that computes element by element");
  }
  SNUG_ASSIGN_OR_RETURN(member.types.options, proto::OptionsFromText(read.options_type(), read.options()));
  const int values = chain.num_inputs() + static_cast<int>(chain.members.size());
  for (const int value : read.input()) {
    if (value < 0 || value >= values) {
      return absl::InvalidArgumentError(absl::StrCat("expected inputs from 0 to ", values - 1, ", found ", value));
    }
    member.operands.push_back(value);
    member.types.inputs.push_back(chain.type(value));
    member.types.present.push_back(true);
  }
  SNUG_RETURN_IF_ERROR(InferTypes(*member.op, &member.types));
  return member;
}

}  // namespace

absl::StatusOr<FusedChain> ReadFusedChain(const NodeTypes& types) {
  const auto& options = types.options.Get<proto::Fused>();
  FusedChain chain{.inputs = types.inputs};
  if (types.num_inputs() > kMostFusedInputs || options.member_size() < 1 || options.member_size() > kMostFusedMembers) {
    return absl::InvalidArgumentError(absl::StrCat("expected up to ", kMostFusedInputs, " inputs and 1 to ",
                                                   kMostFusedMembers, " members, found ", types.num_inputs(), " and ",
                                                   options.member_size()));
  }
  for (const proto::Fused::Member& read : options.member()) {
    absl::StatusOr<FusedMember> member = ReadMember(read, chain);
    if (!member.ok()) {
      return Annotate(member.status(), absl::StrCat("member ", chain.members.size(), " (", read.op(), ")"));
    }
    chain.members.push_back(*std::move(member));
  }
  for (const FusedMember& member : chain.members) {
    const ValueType& made = member.types.output(0);
    if (made.shape != chain.output().shape || !(made.layout == chain.output().layout)) {
      return absl::InvalidArgumentError(
          absl::StrCat("expected members of one shape and layout, found ", made.ToString(), " from ", member.op->name,
                       " and ", chain.output().ToString(), " from ", chain.members.back().op->name));
    }
  }
  return chain;
}

BroadcastView ViewOfOperand(const FusedMember& member, int operand) {
  const ValueType& output = member.types.output(0);
  if (member.op->name == "bias_add" && operand == 1) {  // along an axis of its own, not along the last
    const int rank = output.shape.rank();
    Strides strides = {};
    strides[static_cast<size_t>(*NormalizeAxis(member.types.options.Get<proto::BiasAdd>().axis(), rank))] = 1;
    return BroadcastView(strides, output);
  }
  return BroadcastView(member.types.input(operand), output);
}

Options FusedOptions(absl::Span<const FusedMemberSpec> members) {
  proto::Fused options;
  for (const FusedMemberSpec& spec : members) {
    proto::Fused::Member* const member = options.add_member();
    member->set_op(std::string(spec.op));
    for (const int value : spec.operands) member->add_input(value);
    if (spec.options.empty()) continue;
    member->set_options_type(std::string(spec.options.type()));
    member->set_options(std::string(spec.options.text()));
  }
  return proto::MakeOptions(options);
}

}  // namespace snug
