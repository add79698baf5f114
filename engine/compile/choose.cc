#include "engine/compile/choose.h"

#include <absl/algorithm/container.h>
#include <absl/strings/str_cat.h>

#include <map>
#include <utility>

#include "engine/base/parallel.h"
#include "engine/base/status.h"
#include "engine/compile/conversions.h"
#include "engine/compile/widen.h"
#include "ops/graph_builder.h"
#include "ops/lib/cuda_choice.h"
#include "ops/prepare_context.h"

namespace snug {
namespace {

// The fast kernels know float32 and bfloat16.
bool HasDouble(const NodeTypes& types) {
  for (int i = 0; i < types.num_inputs(); ++i) {
    if (types.has_input(i) && types.input(i).dtype == DType::kFloat64) return true;
  }
  for (const ValueType& output : types.outputs) {
    if (output.dtype == DType::kFloat64) return true;
  }
  return false;
}

class Chooser {
 public:
  Chooser(Graph& graph, const OpRegistry& registry, const ChooseOptions& options)
      : graph_(graph), registry_(registry), options_(options), widener_(graph, registry) {}

  absl::StatusOr<std::vector<KernelChoice>> Run() {
    SetThreadsPerOp(options_.threads);  // libraries size their kernels by it
    for (const NodeId id : graph_.ProgramOrder()) {
      const absl::Status status = Choose(id);
      if (!status.ok()) {
        const Node& node = graph_.node(id);
        return NodeError(node.loc, node.name, node.op, status);
      }
      widener_.Pass(id);
    }
    widener_.RemoveUnreadCasts();
    choices_.resize(graph_.node_capacity());
    return std::move(choices_);
  }

 private:
  bool on_cuda() const { return options_.device.kind == Device::Kind::kCuda; }

  KernelChoice& choice(NodeId id) {
    if (choices_.size() <= static_cast<size_t>(id.index)) choices_.resize(graph_.node_capacity());
    return choices_[static_cast<size_t>(id.index)];
  }

  absl::Status Choose(NodeId id) {
    const OpDef& op = registry_.Get(graph_.node(id).op);
    if (op.traits.view) return absl::OkStatus();
    if (on_cuda()) return ChooseCuda(id, op);
    const bool fast = op.cpu_fast != nullptr && !options_.plain_kernels && !HasDouble(TypesOf(graph_, graph_.node(id)));
    choice(id) = {.kernel = fast ? op.cpu_fast : op.cpu, .fast = fast};
    const bool prepares = op.prepare != nullptr && (fast || op.cpu_fast == nullptr);
    return prepares ? Annotate(Prepare(id, op, op.prepare), "prepare") : absl::OkStatus();
  }

  absl::Status ChooseCuda(NodeId id, const OpDef& op) {
    if (op.cuda == nullptr) {
      return absl::UnimplementedError(absl::StrCat("no CUDA kernel for ", op.name,
                                                   ": `snug ops --json` says which ops have one; --device=cpu runs "
                                                   "them all"));
    }
    choice(id) = {.kernel = op.cuda, .together = op.cuda_together, .fast = true};
    return op.prepare_cuda != nullptr ? Annotate(Prepare(id, op, op.prepare_cuda), "prepare") : absl::OkStatus();
  }

  absl::Status Prepare(NodeId id, const OpDef& op, PrepareFn prepare) {
    if (on_cuda() ? !HasCudaChoices(op) : op.choices == nullptr) return PrepareNamed(id, op, prepare, "");
    const NodeTypes types = TypesOf(graph_, graph_.node(id));
    std::string own;  // the kernel that is taken unless somebody chooses
    if (on_cuda()) {
      SNUG_ASSIGN_OR_RETURN(own, CudaKernelFor(types, prepare));
    }
    KernelChoice& chosen = choice(id);  // until nodes are inserted
    chosen.choice = own;
    if (options_.tuning == nullptr && !options_.list_choices) return PrepareNamed(id, op, prepare, own);

    chosen.key = TuningKey(op.name, types);
    if (options_.list_choices) chosen.offered = on_cuda() ? OtherCudaKernels(own) : op.choices(types, options_.threads);
    const std::string tuned = options_.tuning != nullptr ? options_.tuning->ChoiceFor(chosen.key) : "";
    if (tuned.empty() || tuned == own) return PrepareNamed(id, op, prepare, own);
    chosen.choice = tuned;
    absl::Status prepared = on_cuda() && !absl::c_linear_search(OtherCudaKernels(own), tuned)
                                ? NotBeside(own, tuned)
                                : PrepareNamed(id, op, prepare, tuned);
    if (prepared.ok()) return prepared;
    return absl::InvalidArgumentError(absl::StrCat(prepared.message(), "; the tuning asks for it"));
  }

  static absl::Status NotBeside(const std::string& own, const std::string& tuned) {
    return absl::InvalidArgumentError(absl::StrCat("\"", tuned, "\" cannot be taken instead of \"", own,
                                                   "\", as with other flags (--tf32, --fast) it might"));
  }

  // `named`: empty, or the kernel that is wanted.
  absl::Status PrepareNamed(NodeId id, const OpDef& op, PrepareFn prepare, const std::string& named) {
    NodeTypes types = TypesOf(graph_, graph_.node(id));
    PrepareContext context(types, options_.threads, named, options_.device);
    SNUG_RETURN_IF_ERROR(prepare(context));
    if (context.wants_float32()) {
      SNUG_RETURN_IF_ERROR(Widen(id));
      return PrepareNamed(id, op, prepare, "");
    }
    if (context.wanted_inputs().empty() && context.wanted_outputs().empty()) return Take(id, op, context);

    for (const auto& [i, layout] : context.wanted_inputs()) {
      SNUG_ASSIGN_OR_RETURN(graph_.node(id).inputs[static_cast<size_t>(i)],
                            Reordered(graph_.node(id).inputs[static_cast<size_t>(i)], layout, id));
    }
    for (const auto& [i, layout] : context.wanted_outputs()) {
      SNUG_RETURN_IF_ERROR(ReorderOutput(id, i, layout));
    }
    types = TypesOf(graph_, graph_.node(id));
    PrepareContext again(types, options_.threads, named, options_.device);
    SNUG_RETURN_IF_ERROR(prepare(again));
    SNUG_CHECK_MSG(again.wanted_inputs().empty() && again.wanted_outputs().empty(), op.name);
    return Take(id, op, again);
  }

  // The first of those that are wanted which there is for the node.
  absl::StatusOr<std::string> CudaKernelFor(const NodeTypes& types, PrepareFn prepare) const {
    std::vector<absl::string_view> wanted;
    if (options_.tf32 && options_.fast) wanted.push_back(kTf32FastKernel);
    if (options_.fast) wanted.push_back(kFastKernel);
    if (options_.tf32) wanted.push_back(kTf32Kernel);
    wanted.insert(wanted.end(), {kLibraryKernel, kOwnKernel});
    if (options_.plain_kernels) wanted = {kOwnKernel};
    for (const absl::string_view name : wanted) {
      PrepareContext context(types, options_.threads, name, options_.device);
      const absl::Status status = prepare(context);
      if (status.ok()) return std::string(name);
      if (!absl::IsUnimplemented(status)) return status;
    }
    return absl::InternalError("our own CUDA kernel is not for this");
  }

  absl::Status Take(NodeId id, const OpDef& op, const PrepareContext& context) {
    KernelChoice& chosen = choice(id);
    if (context.declined()) {
      SNUG_CHECK_MSG(!on_cuda(), op.name);
      chosen.kernel = op.cpu;
      chosen.fast = false;
      return absl::OkStatus();
    }
    chosen.prepared = context.kernel();
    chosen.workspace_bytes = context.workspace_bytes();
    return absl::OkStatus();
  }

  // `value` in another layout: an existing reorder of it, or a new one right before `reader`. A Variable's reorder
  // stands before its mutations, because every reader does. On CUDA the backward pass makes its own: kept from the
  // forward pass they would be a copy of all weights at the peak, to save one sweep over them.
  absl::StatusOr<ValueId> Reordered(ValueId value, const Layout& layout, NodeId reader) {
    const Phase phase = graph_.node(reader).phase;
    for (const auto& [known, reordered] : reorders_[value]) {
      const bool near = !on_cuda() || graph_.node(graph_.value(reordered).producer).phase == phase;
      if (known == layout && near) return reordered;
    }
    const ValueId result = InsertReorder(graph_, value, layout, reader, reader);
    SNUG_RETURN_IF_ERROR(ChooseFor(graph_.value(result).producer, reader));
    reorders_[value].emplace_back(layout, result);
    return result;
  }

  absl::Status ReorderOutput(NodeId id, int output, const Layout& layout) {
    const ValueId value = graph_.node(id).outputs[static_cast<size_t>(output)];
    const Layout wanted = graph_.type(value).layout;
    graph_.value(value).type.layout = layout;
    const ValueId result = InsertReorder(graph_, value, wanted, graph_.node(id).next, id);
    ReadInstead(graph_, value, result);
    return ChooseFor(graph_.value(result).producer, id);
  }

  // The node computes on float32 from now on.
  absl::Status Widen(NodeId id) {
    for (const NodeId cast : widener_.Widen(id)) SNUG_RETURN_IF_ERROR(ChooseFor(cast, id));
    return absl::OkStatus();
  }

  // The kernel of a node that was just inserted for `beside`.
  absl::Status ChooseFor(NodeId inserted, NodeId beside) {
    SNUG_RETURN_IF_ERROR(Choose(inserted));
    choice(inserted).inserted_for = beside;
    return absl::OkStatus();
  }

  Graph& graph_;
  const OpRegistry& registry_;
  const ChooseOptions& options_;
  std::vector<KernelChoice> choices_;
  std::map<ValueId, std::vector<std::pair<Layout, ValueId>>> reorders_;
  Widener widener_;
};

}  // namespace

absl::StatusOr<std::vector<KernelChoice>> ChooseKernels(Graph& graph, const OpRegistry& registry,
                                                        const ChooseOptions& options) {
  return Chooser(graph, registry, options).Run();
}

std::vector<std::string> NodesThatVary(const Graph& graph, const std::vector<KernelChoice>& choices) {
  std::vector<std::string> names;
  for (const NodeId id : graph.ProgramOrder()) {
    if (MayVary(choices[static_cast<size_t>(id.index)].choice)) names.push_back(graph.node(id).name);
  }
  return names;
}

}  // namespace snug
