#include "ops/registry.h"

#include <absl/strings/str_cat.h>

#include <utility>

#include "engine/base/status.h"

namespace snug::core {

namespace ops {
#define SNUG_OP_FILE(stem)           \
  namespace stem {                   \
  std::vector<OpDef> OpsIn_##stem(); \
  }
#include "ops/op_files.inc"
#undef SNUG_OP_FILE
}  // namespace ops

namespace {

const char* MissingEntry(const OpDef& op) {
  if (op.traits.layer_only) return op.layer == nullptr ? "layer" : nullptr;
  if (op.traits.control) return nullptr;
  if (op.infer == nullptr) return "infer";
  if (op.plain() == nullptr && !op.traits.view) return "plain kernel";
  if (op.samples == nullptr) return "samples";
  return nullptr;
}

}  // namespace

std::vector<const KernelRow*> OpDef::KernelsOn(Device::Kind device) const {
  std::vector<const KernelRow*> rows;
  for (const KernelRow& row : kernels) {
    if (row.device == device) rows.push_back(&row);
  }
  return rows;
}

const KernelRow* OpDef::FindKernel(Device::Kind device, absl::string_view kernel) const {
  for (const KernelRow& row : kernels) {
    if (row.device == device && row.name == kernel) return &row;
  }
  return nullptr;
}

const OpRegistry& OpRegistry::Builtin() {
  static const OpRegistry* const registry = [] {
    auto* r = new OpRegistry;
#define SNUG_OP_FILE(stem) SNUG_CHECK_OK(r->AddAll(#stem, ops::stem::OpsIn_##stem()));
#include "ops/op_files.inc"
#undef SNUG_OP_FILE
    return r;
  }();
  return *registry;
}

absl::Status OpRegistry::AddAll(absl::string_view file, std::vector<OpDef> ops) {
  for (OpDef& op : ops) {
    // Rows without `run` are not in this build.
    std::erase_if(op.kernels, [](const KernelRow& row) { return row.run == nullptr; });
    if (const char* missing = MissingEntry(op); missing != nullptr) {
      return absl::FailedPreconditionError(absl::StrCat("op \"", op.name, "\" (", file, ") has no ", missing));
    }
    std::string name(op.name);
    const auto [it, inserted] = ops_.try_emplace(std::move(name), Entry{std::move(op), std::string(file)});
    if (!inserted) {
      return absl::AlreadyExistsError(
          absl::StrCat("op \"", it->first, "\" (", file, ") is defined already in ", it->second.file));
    }
  }
  return absl::OkStatus();
}

const OpDef* OpRegistry::Find(absl::string_view name) const {
  const auto it = ops_.find(std::string(name));
  return it == ops_.end() ? nullptr : &it->second.def;
}

const OpDef& OpRegistry::Get(absl::string_view name) const {
  const OpDef* op = Find(name);
  SNUG_CHECK_MSG(op != nullptr, name);
  return *op;
}

std::vector<const OpDef*> OpRegistry::all() const {
  std::vector<const OpDef*> result;
  result.reserve(ops_.size());
  for (const auto& [name, entry] : ops_) result.push_back(&entry.def);
  return result;
}

absl::string_view OpRegistry::file_of(absl::string_view name) const {
  const auto it = ops_.find(std::string(name));
  return it == ops_.end() ? "" : absl::string_view(it->second.file);
}

}  // namespace snug::core
