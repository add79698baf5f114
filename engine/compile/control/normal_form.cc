#include "engine/compile/control/normal_form.h"

#include <absl/strings/str_cat.h>

#include <algorithm>
#include <memory>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "engine/base/status.h"
#include "engine/compile/control/body_copier.h"
#include "engine/compile/control/branch.h"
#include "engine/compile/control/recompute.h"
#include "engine/compile/control/run_time_end.h"
#include "engine/compile/import/import.h"
#include "ops/graph_builder.h"
#include "proto/internal.pb.h"
#include "proto/loops.pb.h"
#include "proto/options.h"

namespace snug::core {
namespace {

constexpr int64_t kMost = int64_t{1} << 62;

class Normalizer {
 public:
  Normalizer(Graph& graph, const OpRegistry& registry, const ControlOptions& options, std::string around,
             std::vector<LoopChoice>* choices)
      : graph_(graph),
        registry_(registry),
        builder_(registry, &graph),
        control_(options),
        around_(std::move(around)),
        choices_(choices) {}

  // Returns what stands for outputs that are something else now.
  absl::StatusOr<std::unordered_map<ValueId, ValueId>> Run() {
    std::vector<NodeId> done;
    for (const NodeId id : graph_.ProgramOrder()) {
      for (ValueId& input : graph_.node(id).inputs) Replace(input);
      if (graph_.node(id).subgraphs.empty()) continue;
      absl::StatusOr<std::vector<ValueId>> outputs = Normalize(id);
      if (!outputs.ok()) {
        return NodeError(graph_.node(id).loc, graph_.node(id).name, graph_.node(id).op, outputs.status());
      }
      for (size_t i = 0; i < outputs->size(); ++i) {
        if ((*outputs)[i] != graph_.node(id).outputs[i]) replaced_[graph_.node(id).outputs[i]] = (*outputs)[i];
      }
      if (graph_.node(id).op != "loop") done.push_back(id);
    }
    graph_.SetInsertionPoint(NodeId());
    for (Output& output : graph_.outputs) Replace(output.value);
    for (ValueId& objective : graph_.objectives) Replace(objective);
    for (const NodeId id : done) graph_.RemoveNode(id);
    return std::move(replaced_);
  }

 private:
  void Replace(ValueId& value) {
    const auto it = replaced_.find(value);
    if (it != replaced_.end()) value = it->second;
  }

  absl::StatusOr<std::vector<ValueId>> Normalize(NodeId id) {
    const std::string name = absl::StrCat(around_, graph_.node(id).name);
    if (graph_.node(id).op == "loop") return NormalizeLoop(id, name);
    std::vector<Graph> bodies;
    std::vector<LoopChoice> choices;
    std::vector<size_t> places;  // how many loops were before each body
    for (const auto& subgraph : graph_.node(id).subgraphs) {
      Graph body = *subgraph;
      const std::string of_body = absl::StrCat(name, "/", bodies.size());
      places.push_back(choices_->size());
      SNUG_RETURN_IF_ERROR(Normalizer(body, registry_, control_, absl::StrCat(of_body, "/"), choices_).Run().status());
      choices.push_back({.name = of_body,
                         .rounds = 1,
                         .nodes = std::max<int64_t>(CountUnrolled(body), 1),
                         .rolled = true,
                         .bound = true,
                         .of_branch = true});
      bodies.push_back(std::move(body));
    }
    graph_.SetInsertionPoint(id);
    if (control_.all_bodies || !RunsTakenBodyAlone(graph_, id, bodies, registry_, control_.rule)) {
      return SpreadBranch(builder_, id, bodies, control_.training);
    }
    for (size_t k = bodies.size(); k-- > 0;) {
      choices_->insert(choices_->begin() + static_cast<int64_t>(places[k]), std::move(choices[k]));
    }
    return RunTakenBody(builder_, id, std::move(bodies));
  }

  absl::StatusOr<std::vector<ValueId>> NormalizeLoop(NodeId id, const std::string& name) {
    const size_t choice = choices_->size();
    choices_->push_back({.name = name});
    Graph body = *graph_.node(id).subgraphs[0];
    SNUG_RETURN_IF_ERROR(Normalizer(body, registry_, control_, absl::StrCat(name, "/"), choices_).Run().status());
    proto::LoopNode imported = graph_.node(id).options.Get<proto::LoopNode>();
    proto::NormalLoop options;
    options.set_rounds(imported.rounds());
    for (int k = 0; k < imported.carry_size(); ++k) {
      proto::NormalLoop::Carry& carry = *options.add_carry();
      carry.set_input(imported.carry(k).input());
      carry.set_output(imported.carry(k).output());
      carry.set_result(k);
    }
    const auto along = [](const proto::LoopNode::Along& from, proto::NormalLoop::Along* to) {
      to->set_port(from.port());
      to->set_axis(from.axis());
      if (from.reverse()) to->set_reverse(true);
    };
    for (const proto::LoopNode::Along& scan : imported.scan()) along(scan, options.add_scan());
    for (int k = 0; k < imported.collect_size(); ++k) {
      proto::NormalLoop::Along& collect = *options.add_collect();
      along(imported.collect(k), &collect);
      collect.set_result(imported.carry_size() + k);
    }
    if (imported.has_index()) options.set_index(imported.index());
    options.set_key(std::exchange(graph_.node(id).random_id, 0));  // rounds shift it: it is no longer a key
    SNUG_RETURN_IF_ERROR(Decide(body, options, (*choices_)[choice]));
    graph_.SetInsertionPoint(id);
    body = WithoutInvariants(id, std::move(body), imported);
    std::vector<ValueId> outputs = graph_.node(id).outputs;
    if (imported.counted() || imported.has_condition()) {
      SNUG_ASSIGN_OR_RETURN(outputs, MoveEndIntoBody(builder_, id, body, control_.training, imported, options));
    } else {
      graph_.node(id).subgraphs = {std::make_shared<const Graph>(std::move(body))};
    }
    graph_.node(id).options = proto::MakeOptions(options);
    (*choices_)[choice].bound = options.has_goes_on();
    const int64_t anew = RoundsAnew((*choices_)[choice].name);
    if (anew == 0) return outputs;
    return SplitForRecomputation(builder_, id, {.rounds = anew, .hoist = control_.hoist_from_chunks},
                                 (*choices_)[choice], std::move(outputs));
  }

  // How many rounds at a time the gradient of a loop is to compute anew.
  int64_t RoundsAnew(const std::string& loop) const {
    if (!control_.training) return 0;
    if (control_.chunks == nullptr) return control_.recompute_rounds;
    const auto found = control_.chunks->find(loop);
    return found == control_.chunks->end() ? 0 : found->second;
  }

  // Moves casts and views of what all rounds read out of the body: a cast of a weight is the same in every round, and
  // its gradient need not be stashed.
  Graph WithoutInvariants(NodeId id, Graph body, proto::LoopNode& options) {
    std::vector<ValueId> outside(body.value_capacity());  // by value of the body: the same, outside
    std::vector<bool> varies(body.inputs().size(), false);
    for (const proto::LoopNode::Carry& carry : options.carry()) varies[static_cast<size_t>(carry.input())] = true;
    for (const proto::LoopNode::Along& scan : options.scan()) varies[static_cast<size_t>(scan.port())] = true;
    if (options.has_index()) varies[static_cast<size_t>(options.index())] = true;
    std::unordered_set<ValueId> per_sample;
    for (const int port : options.per_sample()) per_sample.insert(body.inputs()[static_cast<size_t>(port)]);
    for (size_t i = 0; i < varies.size(); ++i) {
      if (!varies[i]) outside[static_cast<size_t>(body.inputs()[i].index)] = graph_.node(id).inputs[i];
    }
    std::unordered_map<ValueId, ValueId> inputs;  // what stands for outputs of nodes that have gone
    std::vector<NodeId> gone;
    for (const NodeId node_id : body.ProgramOrder()) {
      const Node node = body.node(node_id);
      const OpDef& op = registry_.Get(node.op);
      const bool moves = (op.traits.view || op.name == "cast") && node.inputs.size() == 1 && node.outputs.size() == 1 &&
                         outside[static_cast<size_t>(node.inputs[0].index)].valid();
      if (!moves) continue;
      NodeSpec spec = CopyOf(body, node, outside);
      spec.name = absl::StrCat(graph_.node(id).name, "/", node.name);
      AddCopy(body, node, std::move(spec), graph_, outside);
      const ValueId value = node.outputs[0];
      const ValueId stands = body.AddInput(absl::StrCat(node.name, "/outside"), body.type(value));
      outside.resize(body.value_capacity());
      outside[static_cast<size_t>(stands.index)] = outside[static_cast<size_t>(value.index)];
      std::vector<ValueId>& feeds = graph_.node(id).inputs;
      feeds.insert(feeds.end() - (options.counted() ? 1 : 0), outside[static_cast<size_t>(value.index)]);
      if (per_sample.contains(node.inputs[0])) {
        per_sample.insert(value);
        options.add_per_sample(static_cast<int32_t>(body.inputs().size()) - 1);
      }
      inputs[value] = stands;
      gone.push_back(node_id);
    }
    body.ReplaceUses(inputs);
    for (const NodeId node_id : gone) body.RemoveNode(node_id);
    return body;
  }

  absl::Status Decide(const Graph& body, proto::NormalLoop& options, LoopChoice& choice) const {
    const int64_t nodes = std::max<int64_t>(CountUnrolled(body), 1);
    const int64_t all = nodes > kMost / options.rounds() ? kMost : nodes * options.rounds();
    // Passes would merge the rounds that are computed anew with those before, if they were unrolled.
    const bool by_size = all > kMostUnrolled || RoundsAnew(choice.name) != 0;
    options.set_rolled(control_.rule == LoopRule::kRolled || (control_.rule == LoopRule::kBySize && by_size));
    choice.rounds = options.rounds();
    choice.nodes = nodes;
    choice.rolled = options.rolled();
    if (options.rolled() || all <= kMaxUnrolledNodes) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat(
        options.rounds(), options.rounds() == 1 ? " round of " : " rounds of ", nodes,
        " nodes each are too many to be unrolled: at most ", kMaxUnrolledNodes,
        " nodes in all are possible; a loop that stays one node, as none does on a GPU, may have any number"));
  }

  Graph& graph_;
  const OpRegistry& registry_;
  GraphBuilder builder_;
  const ControlOptions& control_;
  const std::string around_;  // what comes before names
  std::vector<LoopChoice>* const choices_;
  std::unordered_map<ValueId, ValueId> replaced_;
};

int64_t UnrolledRounds(const Options& options) {
  if (options.type() == proto::LoopNode::descriptor()->full_name()) return options.Get<proto::LoopNode>().rounds();
  const auto& normal = options.Get<proto::NormalLoop>();
  return normal.rolled() ? 1 : normal.rounds();
}

}  // namespace

bool HasControlFlow(const Graph& graph) {
  for (NodeId id = graph.first_node(); id.valid(); id = graph.node(id).next) {
    if (!graph.node(id).subgraphs.empty()) return true;
  }
  return false;
}

int64_t CountUnrolled(const Graph& graph) {
  int64_t count = 0;
  for (NodeId id = graph.first_node(); id.valid(); id = graph.node(id).next) {
    const Node& node = graph.node(id);
    int64_t inside = 1;
    for (const auto& subgraph : node.subgraphs) inside = std::min(kMost, inside + CountUnrolled(*subgraph));
    const int64_t rounds = node.op == "loop" ? UnrolledRounds(node.options) : 1;
    inside = inside > kMost / rounds ? kMost : inside * rounds;
    count = std::min(kMost, count + inside);
  }
  return count;
}

absl::StatusOr<std::vector<LoopChoice>> NormalizeControlFlow(Imported& imported, const OpRegistry& registry,
                                                             const ControlOptions& options) {
  std::vector<LoopChoice> choices;
  std::unordered_map<ValueId, ValueId> replaced;
  SNUG_ASSIGN_OR_RETURN(replaced, Normalizer(imported.graph, registry, options, "", &choices).Run());
  for (NodeSpec& update : imported.statistic_updates) {
    for (ValueId& input : update.inputs) {
      const auto it = replaced.find(input);
      if (it != replaced.end()) input = it->second;
    }
  }
  return choices;
}

}  // namespace snug::core
