#include "engine/compile/kernels/choose.h"

#include <absl/algorithm/container.h>
#include <absl/strings/match.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/str_join.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "engine/base/parallel.h"
#include "engine/base/status.h"
#include "engine/compile/control/compile_loop.h"
#include "engine/compile/kernels/conversions.h"
#include "engine/compile/kernels/derive.h"
#include "engine/compile/kernels/readers.h"
#include "engine/compile/kernels/round_reads.h"
#include "engine/compile/kernels/widen.h"
#include "ops/graph_builder.h"
#include "ops/prepare_context.h"

namespace snug::core {
namespace {

constexpr absl::string_view kTheTuningAsksForIt = "; the tuning asks for it";

class Chooser {
 public:
  Chooser(Graph& graph, const OpRegistry& registry, const ChooseOptions& options, const RoundReads& reads)
      : graph_(graph),
        registry_(registry),
        options_(options),
        reads_(reads),
        keeps_reorders_(options.device.kind == Device::Kind::kCpu),
        derived_(options.keep_derived ? FindDerived(graph, registry) : std::vector<char>()),
        readers_(graph),
        widener_(graph, registry, &readers_) {}

  absl::StatusOr<std::vector<KernelChoice>> Run() {
    SetThreadsPerOp(options_.threads);  // libraries size their kernels for so many threads
    for (const NodeId id : graph_.ProgramOrder()) {
      const absl::Status status = Choose(id);
      if (!status.ok()) {
        const Node& node = graph_.node(id);
        return NodeError(node.loc, node.name, node.op, status);
      }
      ForgetReordersOfChanged(id);
      widener_.Pass(id);
    }
    widener_.RemoveUnreadCasts();
    choices_.resize(graph_.node_capacity());
    return std::move(choices_);
  }

 private:
  KernelChoice& choice(NodeId id) {
    if (choices_.size() <= static_cast<size_t>(id.index)) choices_.resize(graph_.node_capacity());
    return choices_[static_cast<size_t>(id.index)];
  }

  absl::Status Choose(NodeId id) {
    const OpDef& op = registry_.Get(graph_.node(id).op);
    if (op.traits.view) return absl::OkStatus();
    if (op.traits.control) {
      const auto reorder = [&](ValueId value, const Layout& layout) -> absl::StatusOr<ValueId> {
        SNUG_ASSIGN_OR_RETURN(const ValueId reordered, Reordered(value, layout, id));
        readers_.Add(reordered, id);
        return reordered;
      };
      SNUG_ASSIGN_OR_RETURN(KernelChoice compiled, CompileLoop(graph_, id, registry_, {options_, reads_, reorder}));
      choice(id) = std::move(compiled);
      return absl::OkStatus();
    }
    std::vector<const KernelRow*> rows = op.KernelsOn(options_.device.kind);
    if (rows.empty()) {
      return absl::UnimplementedError(absl::StrCat("no CUDA kernel for ", op.name,
                                                   ": `snug ops --json` says which ops have one; --device=cpu runs "
                                                   "them all"));
    }
    std::erase_if(rows, [&](const KernelRow* row) {
      if (row->kept_input == nullptr) return false;
      const int input = row->kept_input(TypesOf(graph_, graph_.node(id)));
      return !IsKept(id, input) && !reads_.values.contains(graph_.node(id).inputs[static_cast<size_t>(input)]);
    });
    if (options_.plain_kernels) {
      const auto last = PassOver(id, rows, rows.size() - 1, ByDesign("plain kernels are asked for"));
      return Annotate(ChooseAmong(id, op, last), "prepare");
    }
    SNUG_RETURN_IF_ERROR(Annotate(ChooseAmong(id, op, rows), "prepare"));
    std::erase(choice(id).offered, choice(id).kernel->name);  // what is taken anyway
    return CheckIsKnown(id, rows);
  }

  // A choice that no row knows leaves the node to the last one, which serves everything and may be slow.
  absl::Status CheckIsKnown(NodeId id, std::vector<const KernelRow*> rows) {
    const KernelChoice& chosen = choice(id);
    if (options_.tuning == nullptr || chosen.key.empty() || chosen.kernel->name != rows.back()->name) {
      return absl::OkStatus();
    }
    const std::string tuned = options_.tuning->ChoiceFor(chosen.key);
    if (tuned.empty() || tuned == chosen.kernel->name) return absl::OkStatus();
    const NodeTypes types = TypesOf(graph_, graph_.node(id));
    std::erase_if(rows, [&](const KernelRow* row) { return row->serves != nullptr && row->serves(types).has_value(); });
    SNUG_ASSIGN_OR_RETURN(const std::vector<std::string> known, ChoicesAmong(rows, ContextFor(id, types, "")));
    if (absl::c_linear_search(known, tuned)) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat("there is no kernel \"", tuned, "\" for this, but ",
                                                   absl::StrJoin(known, ", "), kTheTuningAsksForIt));
  }

  // Notes why the first `count` of these rows do not serve the node, and returns the others.
  absl::Span<const KernelRow* const> PassOver(NodeId id, absl::Span<const KernelRow* const> rows, size_t count,
                                              const NotServed& reason) {
    for (const KernelRow* row : rows.first(count)) {
      choice(id).passed_over.push_back({row->name, row->library, reason});
    }
    return rows.subspan(count);
  }

  // The first of them that serves, which the last one does in any case.
  absl::Status ChooseAmong(NodeId id, const OpDef& op, absl::Span<const KernelRow* const> rows) {
    while (rows.size() > 1 && rows[0]->serves != nullptr) {
      const std::optional<NotServed> reason = rows[0]->serves(TypesOf(graph_, graph_.node(id)));
      if (!reason.has_value()) break;
      rows = PassOver(id, rows, 1, *reason);
    }
    KernelChoice& chosen = choice(id);
    chosen = {.kernel = Shared(*rows[0]),
              .key = std::move(chosen.key),
              .offered = std::move(chosen.offered),
              .passed_over = std::move(chosen.passed_over)};
    if (rows[0]->prepare == nullptr) return absl::OkStatus();
    return Prepare(id, op, rows);
  }

  // One for each row, so that Steps of a row can be told.
  std::shared_ptr<const KernelRow> Shared(const KernelRow& row) {
    std::shared_ptr<const KernelRow>& shared = shared_[&row];
    if (shared == nullptr) shared = std::make_shared<const KernelRow>(row);
    return shared;
  }

  // The first of these rows, or what a tuning asks for instead.
  absl::Status Prepare(NodeId id, const OpDef& op, absl::Span<const KernelRow* const> rows) {
    const bool has_choices = rows[0]->tunable || rows[0]->variants != nullptr;
    if (!has_choices || (options_.tuning == nullptr && !options_.list_choices)) {
      return PrepareNamed(id, op, rows, "");
    }
    KernelChoice& chosen = choice(id);  // until nodes are inserted
    if (chosen.key.empty()) {           // no other row has been tried
      const NodeTypes types = TypesOf(graph_, graph_.node(id));
      chosen.key = TuningKey(op.name, types, KeptInputs(id));
      if (options_.list_choices) {
        SNUG_ASSIGN_OR_RETURN(chosen.offered, ChoicesAmong(rows, ContextFor(id, types, "")));
      }
    }
    const std::string tuned = options_.tuning != nullptr ? options_.tuning->ChoiceFor(chosen.key) : "";
    if (tuned.empty()) return PrepareNamed(id, op, rows, "");
    chosen.choice = tuned;
    const auto named = absl::c_find_if(rows, [&](const KernelRow* other) { return other->name == tuned; });
    const size_t before = named == rows.end() ? 0 : static_cast<size_t>(named - rows.begin());
    const NotServed reason = ByDesign(absl::StrCat("the tuning asks for \"", tuned, "\""));
    absl::Status prepared =
        before == 0 ? PrepareNamed(id, op, rows, tuned) : TakeRow(id, op, PassOver(id, rows, before, reason));
    if (prepared.ok() || absl::EndsWith(prepared.message(), kTheTuningAsksForIt)) return prepared;
    return absl::InvalidArgumentError(absl::StrCat(prepared.message(), kTheTuningAsksForIt));
  }

  bool IsKept(NodeId id, int i) const {
    const ValueId input = graph_.node(id).inputs[static_cast<size_t>(i)];
    const auto value = static_cast<size_t>(input.index);
    return input.valid() && value < derived_.size() && derived_[value] != 0;
  }

  std::vector<int> KeptInputs(NodeId id) const {
    std::vector<int> kept;
    for (int i = 0; i < static_cast<int>(graph_.node(id).inputs.size()); ++i) {
      if (IsKept(id, i)) kept.push_back(i);
    }
    return kept;
  }

  PrepareContext ContextFor(NodeId id, const NodeTypes& types, absl::string_view named) const {
    PrepareContext context(types, options_.threads, named, options_.device,
                           {.tf32 = options_.tf32, .fast = options_.fast, .split_products = options_.split_products});
    for (const int i : KeptInputs(id)) context.SetKept(i);
    if (unrounded_.contains(id)) context.SetUnrounded();
    return context;
  }

  // `named`: empty, or the kernel that is wanted.
  absl::Status PrepareNamed(NodeId id, const OpDef& op, absl::Span<const KernelRow* const> rows,
                            const std::string& named) {
    const PrepareFn& prepare = rows[0]->prepare;
    NodeTypes types = TypesOf(graph_, graph_.node(id));
    PrepareContext context = ContextFor(id, types, named);
    SNUG_RETURN_IF_ERROR(prepare(context));
    if (context.wants_unrounded()) {
      SNUG_CHECK_MSG(unrounded_.insert(id).second, op.name);
      widener_.Unround(id);
      return PrepareNamed(id, op, rows, named);
    }
    if (context.wants_float32()) {
      SNUG_RETURN_IF_ERROR(Widen(id));
      return PrepareNamed(id, op, rows, named == rows[0]->name ? named : "");  // what else it was is done
    }
    if (context.wanted_inputs().empty() && context.wanted_outputs().empty()) return Take(id, op, rows, context);

    for (const auto& [i, layout] : context.wanted_inputs()) {
      SNUG_ASSIGN_OR_RETURN(const ValueId reordered,
                            Reordered(graph_.node(id).inputs[static_cast<size_t>(i)], layout, id));
      graph_.node(id).inputs[static_cast<size_t>(i)] = reordered;
      readers_.Add(reordered, id);
    }
    for (const auto& [i, layout] : context.wanted_outputs()) {
      SNUG_RETURN_IF_ERROR(ReorderOutput(id, i, layout));
    }
    types = TypesOf(graph_, graph_.node(id));
    PrepareContext again = ContextFor(id, types, named);
    SNUG_RETURN_IF_ERROR(prepare(again));
    SNUG_CHECK_MSG(again.wanted_inputs().empty() && again.wanted_outputs().empty(), op.name);
    return Take(id, op, rows, again);
  }

  absl::Status Take(NodeId id, const OpDef& op, absl::Span<const KernelRow* const> rows,
                    const PrepareContext& context) {
    KernelChoice& chosen = choice(id);
    if (context.declined().has_value()) {
      SNUG_CHECK_MSG(rows.size() > 1, op.name);
      return TakeRow(id, op, PassOver(id, rows, 1, *context.declined()));
    }
    chosen.prepared = context.kernel();
    chosen.workspace_bytes = context.workspace_bytes();
    chosen.varies = context.varies();
    if (!context.variant().empty()) chosen.choice = context.variant();
    return rows[0]->settle != nullptr && rows.size() > 1 ? PrepareInstead(id, op, rows.subspan(1)) : absl::OkStatus();
  }

  // The first of these rows instead of one before them; what a tuning asked for is still that.
  absl::Status TakeRow(NodeId id, const OpDef& op, absl::Span<const KernelRow* const> rows) {
    const std::string choice_before = choice(id).choice;
    SNUG_RETURN_IF_ERROR(ChooseAmong(id, op, rows));
    KernelChoice& other = choice(id);
    if (other.choice.empty()) other.choice = choice_before;
    return absl::OkStatus();
  }

  // The first of these rows as what serves where the kernel cannot be settled: with the layouts and the workspace of
  // the plan, which has room for both.
  absl::Status PrepareInstead(NodeId id, const OpDef& op, absl::Span<const KernelRow* const> rows) {
    const NodeTypes types = TypesOf(graph_, graph_.node(id));
    while (rows.size() > 1 && rows[0]->serves != nullptr && rows[0]->serves(types).has_value()) rows.remove_prefix(1);
    PrepareContext context = ContextFor(id, types, "");
    if (rows[0]->prepare != nullptr) SNUG_RETURN_IF_ERROR(rows[0]->prepare(context));
    const bool as_it_is = !context.declined().has_value() && !context.wants_float32() &&
                          context.wanted_inputs().empty() && context.wanted_outputs().empty();
    SNUG_CHECK_MSG(as_it_is, op.name);
    KernelChoice& chosen = choice(id);
    chosen.instead = {Shared(*rows[0]), context.kernel()};
    chosen.workspace_bytes = std::max(chosen.workspace_bytes, context.workspace_bytes());
    return absl::OkStatus();
  }

  // A Variable that the node changes is to be brought into other layouts anew by who reads it after that.
  void ForgetReordersOfChanged(NodeId id) {
    const Node& node = graph_.node(id);
    for (const Alias& alias : registry_.Get(node.op).aliases) {
      if (alias.kind == Alias::Kind::kMutates) reorders_.erase(node.inputs[static_cast<size_t>(alias.input)]);
    }
  }

  // `value` in another layout: an existing reorder of it, or a new one right before `reader`.
  absl::StatusOr<ValueId> Reordered(ValueId value, const Layout& layout, NodeId reader) {
    const Phase phase = graph_.node(reader).phase;
    const bool keeps = keeps_reorders_ || !graph_.value(value).variable.valid();
    for (const auto& [known, reordered] : reorders_[value]) {
      const bool near = keeps || graph_.node(graph_.value(reordered).producer).phase == phase;
      if (known == layout && near) return reordered;
    }
    ValueId result;
    if (reads_.before != nullptr && reads_.values.contains(value)) {
      ValueType type = graph_.type(value);
      type.layout = layout;
      result = graph_.AddInput(absl::StrCat(graph_.value(value).name, "/", layout.ToString()), std::move(type));
      reads_.before->push_back({value, result});
    } else {
      result = Reorder(value, layout, reader, reader);
      SNUG_RETURN_IF_ERROR(ChooseFor(graph_.value(result).producer, reader));
    }
    reorders_[value].emplace_back(layout, result);
    return result;
  }

  ValueId Reorder(ValueId value, const Layout& layout, NodeId before, NodeId beside) {
    const ValueId result = InsertReorder(graph_, value, layout, before, beside);
    readers_.Add(value, graph_.value(result).producer);
    return result;
  }

  absl::Status ReorderOutput(NodeId id, int output, const Layout& layout) {
    const ValueId value = graph_.node(id).outputs[static_cast<size_t>(output)];
    const Layout wanted = graph_.type(value).layout;
    graph_.value(value).type.layout = layout;
    const ValueId result = Reorder(value, wanted, graph_.node(id).next, id);
    readers_.ReadInstead(graph_, value, result);
    return ChooseFor(graph_.value(result).producer, id);
  }

  // Makes the node compute on float32 from now on.
  absl::Status Widen(NodeId id) {
    for (const NodeId cast : widener_.Widen(id)) SNUG_RETURN_IF_ERROR(ChooseFor(cast, id));
    return absl::OkStatus();
  }

  // Chooses a kernel for a node that was just inserted for `beside`.
  absl::Status ChooseFor(NodeId inserted, NodeId beside) {
    SNUG_RETURN_IF_ERROR(Choose(inserted));
    choice(inserted).inserted_for = beside;
    return absl::OkStatus();
  }

  Graph& graph_;
  const OpRegistry& registry_;
  const ChooseOptions& options_;
  const RoundReads& reads_;
  // The backward pass reads those of the forward pass. On CUDA it makes its own of Variables: kept they would be a copy
  // of all weights at the peak, to save one sweep over them. Of a cast of a Variable nothing but the reorder is kept.
  const bool keeps_reorders_;
  const std::vector<char> derived_;  // by value id, for values before kernels were chosen
  std::vector<KernelChoice> choices_;
  std::map<const KernelRow*, std::shared_ptr<const KernelRow>> shared_;
  std::map<ValueId, std::vector<std::pair<Layout, ValueId>>> reorders_;
  Readers readers_;
  Widener widener_;
  std::set<NodeId> unrounded_;  // nodes that asked for what is unrounded, and have it
};

bool HasLoop(const Graph& graph) {
  for (NodeId id = graph.first_node(); id.valid(); id = graph.node(id).next) {
    const Node& node = graph.node(id);
    if (node.op == "loop" || absl::c_any_of(node.subgraphs, [](const auto& inside) { return HasLoop(*inside); })) {
      return true;
    }
  }
  return false;
}

}  // namespace

std::string KernelChoice::Name() const {
  if (kernel == nullptr) return "";
  return absl::StrCat(kernel->name, choice.empty() || choice == kernel->name ? "" : " ",
                      choice == kernel->name ? "" : choice);
}

absl::StatusOr<std::vector<KernelChoice>> ChooseKernels(Graph& graph, const OpRegistry& registry,
                                                        const ChooseOptions& options) {
  return ChooseKernelsOfRounds(graph, registry, options, {});
}

absl::StatusOr<std::vector<KernelChoice>> ChooseKernelsOfRounds(Graph& graph, const OpRegistry& registry,
                                                                const ChooseOptions& options, const RoundReads& reads) {
  return Chooser(graph, registry, options, reads).Run();
}

std::vector<VariableId> ReadByRounds(const Graph& graph) {
  std::vector<VariableId> read;
  for (NodeId id = graph.first_node(); id.valid(); id = graph.node(id).next) {
    const Node& node = graph.node(id);
    // A branch hands Variables to the loops in its bodies; what it reads beside these counts, too.
    if (node.op != "loop" && absl::c_none_of(node.subgraphs, [](const auto& body) { return HasLoop(*body); })) continue;
    for (const ValueId input : node.inputs) {
      if (input.valid() && graph.value(input).variable.valid()) read.push_back(graph.value(input).variable);
    }
  }
  return read;
}

std::vector<std::string> NodesThatVary(const Graph& graph, const std::vector<KernelChoice>& choices) {
  std::vector<std::string> names;
  for (const NodeId id : graph.ProgramOrder()) {
    if (choices[static_cast<size_t>(id.index)].varies) names.push_back(graph.node(id).name);
  }
  return names;
}

}  // namespace snug::core
