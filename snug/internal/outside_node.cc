#include "snug/internal/outside_node.h"

#include <absl/strings/str_cat.h>
#include <absl/strings/str_join.h>

#include <utility>

#include "snug/internal/custom.pb.h"

namespace snug {
inline namespace v0 {
namespace embed {

namespace {
constexpr absl::string_view kOutsideNode = "snug.outside";
}  // namespace

OutsideNode NodeOf(std::shared_ptr<const OutsideOp> op, const Custom& written) {
  OutsideNode node{.op = std::move(op)};
  for (const Custom::Option& option : written.option()) {
    node.options[option.name()] = {{option.number().begin(), option.number().end()}, option.text()};
  }
  return node;
}

const OutsideNode& OutsideNode::Of(const core::Options& options) { return options.Held<OutsideNode>(kOutsideNode); }

core::Options OutsideNode::ToOptions() const {
  std::string text;
  std::string bytes = absl::StrCat(op->op.name, gradient ? " gradient" : "");
  for (const auto& [name, option] : options) {
    absl::StrAppend(&text, text.empty() ? "" : " ", name, ": ",
                    option.text.empty() ? absl::StrJoin(option.numbers, ",") : option.text);
    absl::StrAppend(&bytes, "\n", name.size(), " ", name, " ", option.text.size(), " ", option.text, " ");
    bytes.append(reinterpret_cast<const char*>(option.numbers.data()), option.numbers.size() * sizeof(double));
  }
  for (const core::ValueType& type : inputs) absl::StrAppend(&bytes, "\n", type.ToString());
  for (const core::ValueType& type : outputs) absl::StrAppend(&bytes, "\n", type.ToString());
  for (const bool want : wanted) bytes += want ? '1' : '0';
  return core::Options(std::make_shared<const OutsideNode>(*this), std::string(kOutsideNode), std::move(bytes),
                       std::move(text));
}

}  // namespace embed
}  // namespace v0
}  // namespace snug
