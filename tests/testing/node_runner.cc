#include "tests/testing/node_runner.h"

#include <absl/strings/match.h>
#include <absl/strings/str_cat.h>

#include <algorithm>
#include <cstring>

#include "engine/base/parallel.h"
#include "engine/base/status.h"
#include "ops/kernel_context.h"
#include "ops/prepare_context.h"

namespace snug::core::test {
namespace {

CudaRun& TheCudaRun() {
  static auto* const run = new CudaRun;
  return *run;
}

absl::string_view PortName(const std::vector<Port>& ports, size_t i) {
  return ports.empty() ? "?" : ports[std::min(i, ports.size() - 1)].name;
}

DType Wide(DType dtype) { return dtype == DType::kBFloat16 ? DType::kFloat32 : dtype; }

absl::Status CheckGuards(absl::string_view what, const GuardedBytes& bytes) {
  const std::optional<int64_t> damage = bytes.FindDamage();
  if (!damage.has_value()) return absl::OkStatus();
  return absl::InternalError(
      absl::StrCat("the kernel wrote outside ", what, " of ", bytes.size(), " bytes: at offset ", *damage));
}

}  // namespace

void SetCudaRun(CudaRun run) { TheCudaRun() = std::move(run); }

NodeRunner::NodeRunner(const OpRegistry& registry, const OpDef& op, NodeTypes types, int threads, uint64_t random_id)
    : registry_(&registry),
      op_(&op),
      types_(std::move(types)),
      bound_(types_),
      threads_(threads),
      random_id_(random_id),
      kernel_(op.plain()) {}

absl::StatusOr<NodeRunner> NodeRunner::Make(const OpRegistry& registry, const OpDef& op, NodeTypes types,
                                            KernelChoice choice, int threads, uint64_t random_id,
                                            absl::string_view named) {
  NodeRunner runner(registry, op, std::move(types), threads, random_id);
  if (op.traits.view) return runner;
  Device device;
  if (choice == KernelChoice::kCuda && !op.KernelsOn(kOnCuda).empty()) device.kind = kOnCuda;
  runner.on_cuda_ = device.kind == kOnCuda;
  std::vector<const KernelRow*> rows = {op.plain()};
  if (choice != KernelChoice::kPlain) rows = op.KernelsOn(device.kind);
  const bool keeps = choice == KernelChoice::kKept;
  if (!keeps) std::erase_if(rows, [](const KernelRow* row) { return row->kept_input != nullptr; });
  const auto first = std::find_if(rows.begin(), rows.end(), [&](const KernelRow* row) { return row->name == named; });
  if (first != rows.end()) rows.erase(rows.begin(), first);
  // The row from `begin` on that serves, which the last one does in any case.
  const auto serving = [&](std::vector<const KernelRow*>::const_iterator begin) {
    return std::find_if(begin, rows.cend() - 1, [&](const KernelRow* row) {
      return row->serves == nullptr || !row->serves(runner.types_).has_value();
    });
  };
  auto row = serving(rows.cbegin());
  const KernelLicence licence = {.tf32 = absl::StrContains(named, "tf32"),
                                 .fast = absl::StrContains(named, "fast"),
                                 .split_products = absl::StrContains(named, "split")};
  SetThreadsPerOp(threads);
  for (bool widened = false, reordered = false, unrounded = false;;) {
    runner.kernel_ = *row;
    if (runner.kernel_->prepare == nullptr) return runner;
    PrepareContext context(runner.bound_, threads, named, device, licence);
    for (int i = 0; keeps && i < runner.bound_.num_inputs(); ++i) context.SetKept(i);
    if (unrounded) context.SetUnrounded();
    SNUG_RETURN_IF_ERROR(Annotate(runner.kernel_->prepare(context), "prepare"));
    if (context.declined().has_value()) {
      if (row + 1 == rows.cend()) {
        runner.on_cuda_ = false;
        runner.kernel_ = op.plain();
        return runner;
      }
      row = serving(row + 1);
      reordered = false;
      for (size_t i = 0; i < runner.types_.inputs.size(); ++i) {
        runner.bound_.inputs[i].layout = runner.types_.inputs[i].layout;
      }
      for (size_t o = 0; o < runner.types_.outputs.size(); ++o) {
        runner.bound_.outputs[o].layout = runner.types_.outputs[o].layout;
      }
      continue;
    }
    if (context.wants_unrounded()) {
      // In a network what such nodes read after the data are parameters, and updates read the gradients of these.
      if (unrounded) return absl::InternalError("prepare asks for what is unrounded although it got it");
      unrounded = true;
      if (absl::EndsWith(op.name, "grad_weight")) {
        for (ValueType& type : runner.bound_.outputs) type.dtype = Wide(type.dtype);
      } else {
        for (size_t i = 1; i < runner.bound_.inputs.size(); ++i) {
          runner.bound_.inputs[i].dtype = Wide(runner.bound_.inputs[i].dtype);
        }
      }
      continue;
    }
    if (context.wants_float32()) {
      if (widened) return absl::InternalError("prepare asks for float32 although it got it");
      widened = true;
      if (named != runner.kernel_->name) named = {};
      for (ValueType& type : runner.bound_.inputs) type.dtype = Wide(type.dtype);
      for (ValueType& type : runner.bound_.outputs) type.dtype = Wide(type.dtype);
      continue;
    }
    if (context.wanted_inputs().empty() && context.wanted_outputs().empty()) {
      runner.prepared_ = context.kernel();
      runner.workspace_bytes_ = context.workspace_bytes();
      const KernelRow* const last = op.KernelsOn(device.kind).back();
      if (!runner.on_cuda_ || last == runner.kernel_) return runner;
      PrepareContext other(runner.bound_, threads, {}, device);
      SNUG_RETURN_IF_ERROR(last->prepare(other));
      runner.instead_ = {std::make_shared<const KernelRow>(*last), other.kernel()};
      runner.workspace_bytes_ = std::max(runner.workspace_bytes_, other.workspace_bytes());
      return runner;
    }
    if (reordered) return absl::InternalError("prepare asks for other layouts although it got those it wanted");
    reordered = true;
    for (const auto& [i, layout] : context.wanted_inputs())
      runner.bound_.inputs[static_cast<size_t>(i)].layout = layout;
    for (const auto& [i, layout] : context.wanted_outputs()) {
      runner.bound_.outputs[static_cast<size_t>(i)].layout = layout;
    }
  }
}

bool NodeRunner::Mutates(int input) const {
  for (const Alias& alias : op_->aliases) {
    if (alias.kind == Alias::Kind::kMutates && alias.input == input) return true;
  }
  return false;
}

absl::StatusOr<NodeRun> NodeRunner::RunView(const std::vector<Tensor>& inputs) const {
  NodeRun run;
  for (size_t o = 0; o < types_.outputs.size(); ++o) {
    const Alias* view = nullptr;
    for (const Alias& alias : op_->aliases) {
      if (alias.kind == Alias::Kind::kMustShare && alias.output == static_cast<int>(o)) view = &alias;
    }
    if (view == nullptr) return absl::InternalError(absl::StrCat("a view's output ", o, " has no kMustShare alias"));
    Tensor output(types_.outputs[o]);
    const Tensor& source = inputs[static_cast<size_t>(view->input)];
    if (output.bytes.size() > source.bytes.size()) {
      return absl::InternalError(absl::StrCat("a view's output ", o, " has more bytes than input ", view->input));
    }
    std::memcpy(output.data(), source.data(), static_cast<size_t>(output.bytes.size()));
    run.outputs.push_back(std::move(output));
  }
  return run;
}

absl::StatusOr<NodeRun> NodeRunner::Run(const std::vector<Tensor>& inputs, const RunOptions& options) const {
  SNUG_CHECK(inputs.size() == types_.inputs.size());
  if (op_->traits.view) return RunView(inputs);

  std::vector<Tensor> before;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!types_.present[i]) {
      before.emplace_back();
      continue;
    }
    SNUG_CHECK_MSG(inputs[i].type == types_.inputs[i],
                   absl::StrCat(inputs[i].type.ToString(), " for ", types_.inputs[i].ToString()));
    const Tensor input = WithDType(inputs[i], bound_.inputs[i].dtype);
    SNUG_ASSIGN_OR_RETURN(Tensor converted, ConvertLayout(*registry_, input, bound_.inputs[i].layout));
    before.push_back(std::move(converted));
  }
  std::vector<Tensor> bound_inputs = before;
  std::vector<Tensor> bound_outputs;
  for (const ValueType& type : bound_.outputs) bound_outputs.emplace_back(type, options.garbage);
  GuardedBytes workspace(workspace_bytes_, options.garbage);

  std::vector<void*> input_pointers, output_pointers;
  for (size_t i = 0; i < inputs.size(); ++i) {
    input_pointers.push_back(types_.present[i] ? bound_inputs[i].data() : nullptr);
  }
  for (Tensor& output : bound_outputs) output_pointers.push_back(output.data());
  for (const Alias& alias : options.in_place) {
    const size_t i = static_cast<size_t>(alias.input);
    const size_t o = static_cast<size_t>(alias.output);
    SNUG_CHECK(bound_outputs[o].bytes.size() == bound_inputs[i].bytes.size());
    output_pointers[o] = input_pointers[i];
  }

  void* workspace_pointer = workspace_bytes_ > 0 ? workspace.data() : nullptr;
  if (on_cuda_ && TheCudaRun().place != nullptr) {
    const auto place = [](void*& pointer, int64_t bytes) -> absl::Status {
      if (pointer == nullptr) return absl::OkStatus();
      SNUG_ASSIGN_OR_RETURN(pointer, TheCudaRun().place(pointer, bytes));
      return absl::OkStatus();
    };
    for (size_t i = 0; i < inputs.size(); ++i) {
      SNUG_RETURN_IF_ERROR(place(input_pointers[i], bound_inputs[i].bytes.size()));
    }
    for (size_t o = 0; o < bound_outputs.size(); ++o) {
      SNUG_RETURN_IF_ERROR(place(output_pointers[o], bound_outputs[o].bytes.size()));
    }
    SNUG_RETURN_IF_ERROR(place(workspace_pointer, workspace_bytes_));
  }

  SetThreadsPerOp(threads_);
  const KernelContext context(&bound_, input_pointers, output_pointers, workspace_pointer, prepared_.get(), threads_,
                              random_id_, on_cuda_ ? TheCudaRun().context : nullptr);
  absl::Status status = kernel_->run(context);
  if (absl::IsUnimplemented(status) && instead_.kernel != nullptr) {
    if (TheCudaRun().refused != nullptr) TheCudaRun().refused(kernel_->name, status);
    status = instead_.kernel->run(KernelContext(&bound_, input_pointers, output_pointers, workspace_pointer,
                                                instead_.prepared.get(), threads_, random_id_, context.cuda()));
  }
  if (on_cuda_) status.Update(TheCudaRun().synchronize());  // after an error too: what was launched uses the buffers

  for (size_t i = 0; i < bound_inputs.size(); ++i) {
    const std::string what = absl::StrCat("input ", i, " \"", PortName(op_->inputs, i), "\"");
    SNUG_RETURN_IF_ERROR(CheckGuards(what, bound_inputs[i].bytes));
    const bool overwritten = std::any_of(options.in_place.begin(), options.in_place.end(),
                                         [i](const Alias& alias) { return alias.input == static_cast<int>(i); });
    if (!types_.present[i] || overwritten || Mutates(static_cast<int>(i))) continue;
    const std::optional<std::string> difference = FindBitDifference(before[i], bound_inputs[i]);
    if (difference.has_value())
      return absl::InternalError(absl::StrCat("the kernel changed ", what, ": ", *difference));
  }
  for (size_t o = 0; o < bound_outputs.size(); ++o) {
    SNUG_RETURN_IF_ERROR(
        CheckGuards(absl::StrCat("output ", o, " \"", PortName(op_->outputs, o), "\""), bound_outputs[o].bytes));
  }
  SNUG_RETURN_IF_ERROR(CheckGuards("its workspace", workspace));
  SNUG_RETURN_IF_ERROR(status);

  NodeRun run;
  for (size_t i = 0; i < bound_inputs.size(); ++i) {
    if (types_.present[i] && Mutates(static_cast<int>(i))) run.mutated.emplace_back(i, bound_inputs[i]);
  }
  for (const Alias& alias : options.in_place) {
    Tensor& output = bound_outputs[static_cast<size_t>(alias.output)];
    const Tensor& shared = bound_inputs[static_cast<size_t>(alias.input)];
    std::memcpy(output.data(), shared.data(), static_cast<size_t>(output.bytes.size()));
  }
  for (size_t o = 0; o < bound_outputs.size(); ++o) {
    SNUG_ASSIGN_OR_RETURN(Tensor converted, ConvertLayout(*registry_, bound_outputs[o], types_.outputs[o].layout));
    run.outputs.push_back(WithDType(converted, types_.outputs[o].dtype));
  }
  return run;
}

absl::StatusOr<Tensor> ConvertLayout(const OpRegistry& registry, const Tensor& tensor, const Layout& layout) {
  const Layout& from = tensor.type.layout;
  if (from == layout) return tensor;
  if (from.kind != Layout::Kind::kPacked && layout.kind != Layout::Kind::kPacked) return WithLayout(tensor, layout);
  const OpDef* reorder = registry.Find("reorder");
  if (reorder == nullptr) return absl::NotFoundError("a packed layout is wanted, but there is no op \"reorder\"");
  NodeTypes types;
  types.inputs = {tensor.type};
  types.present = {true};
  types.outputs = {ValueType{tensor.type.dtype, tensor.type.shape, layout}};
  SNUG_ASSIGN_OR_RETURN(const NodeRunner runner,
                        NodeRunner::Make(registry, *reorder, std::move(types), KernelChoice::kFast, 1));
  SNUG_ASSIGN_OR_RETURN(NodeRun run, runner.Run({tensor}));
  return std::move(run.outputs[0]);
}

}  // namespace snug::core::test
