#include "ops/kernel_row.h"

#include <utility>

#include "engine/base/status.h"
#include "ops/node_types.h"
#include "ops/prepare_context.h"

namespace snug::core {

KernelRow Plain(KernelFn run) { return {.name = "plain", .run = std::move(run)}; }
KernelRow OwnOnCuda(KernelFn run) { return {.device = kOnCuda, .name = "own", .run = std::move(run)}; }

NotServed Refused(std::string why) { return {NotServed::Cause::kRefused, std::move(why)}; }
NotServed ByDesign(std::string why) { return {NotServed::Cause::kByDesign, std::move(why)}; }

absl::StatusOr<std::vector<std::string>> ChoicesAmong(absl::Span<const KernelRow* const> rows,
                                                      const PrepareContext& context) {
  std::vector<std::string> names;
  for (const KernelRow* row : rows) {
    if (row != rows.front() && !(rows.front()->tunable && row->tunable)) continue;
    if (row->kept_input != nullptr && !context.kept(row->kept_input(context.types()))) continue;
    if (row->serves != nullptr && row->serves(context.types()).has_value()) continue;
    if (row->tunable) names.emplace_back(row->name);
    if (row->variants == nullptr) continue;
    SNUG_ASSIGN_OR_RETURN(const std::vector<std::string> more, row->variants(context));
    names.insert(names.end(), more.begin(), more.end());
  }
  return names;
}

std::optional<NotServed> NotInDouble(const NodeTypes& types) {
  bool in_double = false;
  for (int i = 0; i < types.num_inputs(); ++i) {
    in_double = in_double || (types.has_input(i) && types.input(i).dtype == DType::kFloat64);
  }
  for (const ValueType& output : types.outputs) in_double = in_double || output.dtype == DType::kFloat64;
  if (!in_double) return std::nullopt;
  return ByDesign("it knows float32 and bfloat16, not float64");
}

}  // namespace snug::core
