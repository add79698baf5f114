#include "ops/fused_chain.h"

#include <absl/strings/str_cat.h>
#include <absl/strings/str_join.h>

#include <memory>
#include <string>
#include <utility>

#include "engine/base/status.h"
#include "ops/graph_builder.h"

namespace snug::core {
namespace {

constexpr absl::string_view kMembers = "snug.fused";
using Members = std::vector<FusedMemberSpec>;

absl::StatusOr<FusedMember> ReadMember(const FusedMemberSpec& read, const FusedChain& chain, bool last) {
  FusedMember member{.op = read.op};
  const bool reduces = last && !chain.members.empty() && member.op->reduction != nullptr;
  if (member.op->elementwise.expression == nullptr && !reduces) {
    return absl::InvalidArgumentError("expected an op that computes element by element, or a reduction after these");
  }
  member.types.options = read.options;
  const int values = chain.num_inputs() + static_cast<int>(chain.members.size());
  for (const int value : read.operands) {
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
  const Members members = types.options.empty() ? Members() : types.options.Held<Members>(kMembers);
  FusedChain chain{.inputs = types.inputs};
  if (types.num_inputs() > kMostFusedInputs || members.empty() || members.size() > kMostFusedMembers) {
    return absl::InvalidArgumentError(absl::StrCat("expected up to ", kMostFusedInputs, " inputs and 1 to ",
                                                   kMostFusedMembers, " members, found ", types.num_inputs(), " and ",
                                                   members.size()));
  }
  for (const FusedMemberSpec& read : members) {
    const bool last = chain.members.size() + 1 == members.size();
    absl::StatusOr<FusedMember> member = ReadMember(read, chain, last);
    if (!member.ok()) {
      return Annotate(member.status(), absl::StrCat("member ", chain.members.size(), " (", read.op->name, ")"));
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

Options FusedOptions(std::vector<FusedMemberSpec> members) {
  std::string bytes, text;
  for (const FusedMemberSpec& member : members) {
    const std::string operands = absl::StrJoin(member.operands, ", ");
    const Options& options = member.options;
    absl::StrAppend(&bytes, member.op->name, "(", operands, ") ", options.type(), " ", options.bytes().size(), " ",
                    options.bytes(), "\n");
    absl::StrAppend(&text, text.empty() ? "" : "; ", member.op->name, "(", operands, ")",
                    options.text().empty() ? "" : absl::StrCat(" {", options.text(), "}"));
  }
  return Options(std::make_shared<const Members>(std::move(members)), std::string(kMembers), std::move(bytes),
                 std::move(text));
}

}  // namespace snug::core
