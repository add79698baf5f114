#include "ops/fused_chain.h"

#include <absl/strings/str_cat.h>

#include <string>
#include <utility>

#include "engine/base/status.h"
#include "ops/graph_builder.h"
#include "ops/registry.h"
#include "proto/fused.pb.h"
#include "proto/options.h"

namespace snug::core {
namespace {

absl::StatusOr<FusedMember> ReadMember(const proto::Fused::Member& read, const FusedChain& chain, bool last) {
  FusedMember member{.op = OpRegistry::Builtin().Find(read.op())};
  const bool reduces = last && !chain.members.empty() && member.op != nullptr && member.op->reduction != nullptr;
  if (member.op == nullptr || (member.op->elementwise.expression == nullptr && !reduces)) {
    return absl::InvalidArgumentError("expected an op that computes element by element, or a reduction after these");
  }
  SNUG_ASSIGN_OR_RETURN(member.types.options, proto::OptionsFromText(read.options_type(), read.options()));
  const int values = chain.num_inputs() + static_cast<int>(chain.members.size());
  for (const int value : read.input()) {
    if (value < 0 || value >= values) {
      return absl::InvalidArgumentError(absl::StrCat("expected inputs from 0 to ", values - 1, ", found ", value));
    }
    if (reduces && value != values - 1) {
      return absl::InvalidArgumentError(
          absl::StrCat("expected value ", values - 1, ", which is the last, found ", value));
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
    const bool last = static_cast<int>(chain.members.size()) + 1 == options.member_size();
    absl::StatusOr<FusedMember> member = ReadMember(read, chain, last);
    if (!member.ok()) {
      return Annotate(member.status(), absl::StrCat("member ", chain.members.size(), " (", read.op(), ")"));
    }
    chain.members.push_back(*std::move(member));
  }
  for (size_t m = 0; m < chain.elementwise(); ++m) {
    const FusedMember& member = chain.members[m];
    const ValueType& made = member.types.output(0);
    if (made.shape != chain.elements().shape || !(made.layout == chain.elements().layout)) {
      return absl::InvalidArgumentError(absl::StrCat(
          "expected members of one shape and layout, found ", made.ToString(), " from ", member.op->name, " and ",
          chain.elements().ToString(), " from ", chain.members[chain.elementwise() - 1].op->name));
    }
  }
  return chain;
}

bool FusedChain::reduces() const { return members.back().op->reduction != nullptr; }

BroadcastView ViewOfOperand(const FusedMember& member, int operand) {
  const auto view = member.op->elementwise.operand_view;
  return view != nullptr ? view(member.types, operand)
                         : BroadcastView(member.types.input(operand), member.types.output(0));
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

}  // namespace snug::core
