#include "engine/compile/differentiate/row_gradients.h"

#include <absl/algorithm/container.h>
#include <absl/strings/match.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/strip.h>

#include <algorithm>
#include <utility>

#include "engine/base/status.h"
#include "engine/base/text/glob.h"
#include "engine/base/text/json.h"
#include "engine/base/text/suggest.h"
#include "engine/compile/import/check_optimizer.h"
#include "engine/compile/kernels/conversions.h"
#include "proto/data_type.h"
#include "proto/network.pb.h"
#include "proto/options.h"

namespace snug::core {
namespace {

constexpr char kFlag[] = "sparse-tables";

// What the optimizer does to rows whose gradient is zero. `why_never`: why it cannot do without the whole gradient.
// `why_other`: what it would change in them; empty: nothing, to the bit.
struct ZeroGradients {
  std::string why_never, why_other;
};

ZeroGradients OfOptimizer(const proto::Optimizer& optimizer, const Variable& table) {
  if (optimizer.has_lamb()) return {.why_never = "lamb needs the norm of the whole change", .why_other = {}};
  if (optimizer.state() == kStateIn8Bits) {
    return {.why_never = "the optimizer's state is in blocks of 8-bit numbers, which are no rows", .why_other = {}};
  }
  std::string other;
  if (optimizer.weight_decay() * table.decay_mult != 0) {
    other = "weight decay changes every row";
  } else if (table.type.dtype == DType::kBFloat16 ||
             (optimizer.has_adagrad() && optimizer.state() == Name(DType::kBFloat16))) {
    other = "roundings to bfloat16 are drawn by the place in the whole table";
  } else if (optimizer.has_adagrad()) {
    if (optimizer.adagrad().epsilon() == 0) other = "adagrad without epsilon divides 0 by 0 in rows without a gradient";
  } else if (optimizer.kind_case() != proto::Optimizer::kSgd &&
             optimizer.kind_case() != proto::Optimizer::KIND_NOT_SET) {
    other = "the optimizer changes rows without a gradient too";
  } else if (optimizer.sgd().momentum() != 0) {
    other = "momentum changes rows without a gradient too";
  }
  return {.why_never = {}, .why_other = std::move(other)};
}

enum class Said : uint8_t { kNothing, kRows, kWhole };

class RowGradients {
 public:
  RowGradients(GraphBuilder& builder, const proto::Optimizer& optimizer,
               const std::unordered_map<ValueId, ValueId>& gradients, const RowGradientOptions& options)
      : builder_(builder),
        graph_(builder.graph()),
        optimizer_(optimizer),
        gradients_(gradients),
        options_(options),
        readers_(ReadersOf(graph_)) {}

  absl::StatusOr<std::unordered_map<ValueId, RowList>> Run(std::vector<TableGradient>* tables) {
    SNUG_RETURN_IF_ERROR(CheckPatterns());
    std::unordered_map<ValueId, RowList> lists;
    for (size_t i = 0; i < graph_.variables().size(); ++i) {
      const Variable variable = graph_.variable(VariableId{static_cast<int32_t>(i)});
      if (!IsTable(variable)) continue;
      SNUG_ASSIGN_OR_RETURN(TableGradient table, Choose(variable));
      if (table.rows) {
        SNUG_ASSIGN_OR_RETURN(lists[variable.value], MakeList(gradients_.at(variable.value)));
        RemoveWhole(gradients_.at(variable.value));
        SNUG_RETURN_IF_ERROR(LookUpBeforeCasts(variable.value));
      }
      tables->push_back(std::move(table));
    }
    return lists;
  }

 private:
  const std::vector<NodeId>& Readers(ValueId value) const { return readers_[static_cast<size_t>(value.index)]; }
  const Node& NodeOf(NodeId id) const { return graph_.node(id); }
  const Node* Producer(ValueId value) const {
    const NodeId id = graph_.value(value).producer;
    return id.valid() ? &graph_.node(id) : nullptr;
  }
  bool IsLookup(NodeId reader, ValueId table) const {
    const Node& node = graph_.node(reader);
    return node.op == "embedding" && node.inputs[1] == table;
  }

  // Whether a trained parameter, or a cast of it, is what an embedding looks up.
  bool IsTable(const Variable& variable) const {
    if (variable.role != VariableRole::kParameter || gradients_.count(variable.value) == 0) return false;
    return absl::c_any_of(Readers(variable.value), [&](NodeId reader) {
      if (IsLookup(reader, variable.value)) return true;
      if (!IsCast(NodeOf(reader))) return false;
      const ValueId cast = NodeOf(reader).outputs[0];
      return absl::c_any_of(Readers(cast), [&](NodeId lookup) { return IsLookup(lookup, cast); });
    });
  }

  // A pattern that matches no table is most likely misspelt, or means something that has no rows.
  absl::Status CheckPatterns() const {
    for (size_t p = 0; p < options_.tables.patterns.size(); ++p) {
      const std::string& written = options_.tables.patterns[p];
      const absl::string_view pattern = absl::StripPrefix(written, "!");
      Suggester suggester(pattern);
      bool matched = false;
      std::string other;
      for (const Variable& variable : graph_.variables()) {
        if (variable.role != VariableRole::kParameter) continue;
        const bool matches = GlobMatches(pattern, variable.name);
        if (IsTable(variable)) {
          suggester.Consider(variable.name);
          matched = matched || matches;
        } else if (matches) {
          other = variable.frozen ? absl::StrCat(variable.name, " is frozen")
                                  : absl::StrCat("no embedding looks up ", variable.name);
        }
      }
      if (matched || pattern == "*") continue;
      return options_.tables.places.FlagError(
          kFlag, absl::StrCat("\"", written, "\": expected the name of a trained table that embeddings look up, ",
                              other.empty() ? "no parameter has such a name" : other, suggester.Question()));
    }
    return absl::OkStatus();
  }

  Said WhatIsSaid(const std::string& name) const {
    Said said = Said::kNothing;
    for (const std::string& pattern : options_.tables.patterns) {
      const bool excludes = absl::StartsWith(pattern, "!");
      if (!GlobMatches(absl::StripPrefix(pattern, "!"), name)) continue;
      if (excludes) return Said::kWhole;
      said = Said::kRows;
    }
    return said;
  }

  // What else than lookups a gradient comes from; null: it is of lookups alone.
  const Node* OtherSource(ValueId gradient) const {
    const Node* const node = Producer(gradient);
    if (node == nullptr) return nullptr;
    if (node->op == "embedding_grad") return nullptr;
    if (node->op != "add_n" && !IsCast(*node)) return node;
    for (const ValueId input : node->inputs) {
      const Node* const source = OtherSource(input);
      if (source != nullptr) return source;
    }
    return nullptr;
  }

  // Whether someone reads a gradient, or what it is made of, besides what it becomes.
  bool IsReadElsewhere(ValueId gradient, size_t readers) const {
    if (Producer(gradient) == nullptr || Readers(gradient).size() != readers) return true;
    if (absl::c_any_of(graph_.outputs, [&](const Output& output) { return output.value == gradient; })) return true;
    const Node& node = *Producer(gradient);
    if (node.op == "embedding_grad") return false;
    return absl::c_any_of(node.inputs, [&](ValueId part) { return IsReadElsewhere(part, 1); });
  }

  int64_t MostRows(ValueId gradient) const {
    const Node& node = *Producer(gradient);
    if (node.op == "embedding_grad") return graph_.type(node.inputs[0]).num_elements();
    int64_t rows = 0;
    for (const ValueId part : node.inputs) rows += MostRows(part);
    return rows;
  }

  // The layer that reads the table otherwise, in words.
  std::string ReadOtherwise(const Node& source) const {
    const Node& reader = source.forward.valid() ? NodeOf(source.forward) : source;
    return absl::StrCat("layer \"", reader.name, "\" (", reader.op, ") reads it too");
  }

  // Why its gradient is whole whatever is asked for; empty: it need not be. `at` gets the node that is to blame.
  std::string WhyNever(const Variable& table, const ZeroGradients& zero, const Node** at) const {
    const ValueId gradient = gradients_.at(table.value);
    if (options_.device.kind != Device::Kind::kCpu) return "lists of rows have kernels for the CPU only";
    if (options_.micro_batches > 1) {
      return absl::StrCat("it is added up over ", options_.micro_batches, " micro-batches");
    }
    if (const Node* const source = OtherSource(gradient); source != nullptr) {
      *at = source->forward.valid() ? &NodeOf(source->forward) : source;
      return ReadOtherwise(*source);
    }
    if (Producer(gradient) == nullptr) return "it does not come from lookups";
    if (IsReadElsewhere(gradient, 0)) return "it is fetched";
    return zero.why_never;
  }

  absl::StatusOr<TableGradient> Choose(const Variable& table) {
    const ZeroGradients zero = OfOptimizer(optimizer_, table);
    TableGradient chosen{.table = table.name, .entries = table.type.shape[0]};
    const Said said = WhatIsSaid(table.name);
    if (said == Said::kWhole) {
      chosen.why = "as asked for";
      return chosen;
    }
    const Node* at = nullptr;
    chosen.why = WhyNever(table, zero, &at);
    if (!chosen.why.empty()) {
      if (said != Said::kRows) return chosen;
      const absl::Status refused = options_.tables.places.FlagError(
          kFlag, absl::StrCat("the gradient of ", table.name, " cannot be a list of rows: ", chosen.why));
      return at == nullptr ? refused : NodeError(at->loc, at->name, at->op, refused);
    }
    const ValueType& type = table.type;
    chosen.most_rows = MostRows(gradients_.at(table.value));
    chosen.exact = zero.why_other.empty();
    if (said != Said::kRows) {
      const int64_t row_bytes = type.shape[1] * SizeOf(type.dtype);
      if (!chosen.exact) {
        chosen.why = zero.why_other;
      } else if (chosen.most_rows * (row_bytes + static_cast<int64_t>(sizeof(int64_t))) >= type.size_bytes()) {
        chosen.why = "a list of its rows would be no smaller";
      }
    }
    chosen.rows = chosen.why.empty();
    return chosen;
  }

  absl::StatusOr<NodeId> AddLike(const Node& like, absl::string_view suffix, absl::string_view op,
                                 std::vector<ValueId> inputs, Options options) {
    return builder_.Add({.name = absl::StrCat(like.name, suffix),
                         .op = std::string(op),
                         .options = std::move(options),
                         .inputs = std::move(inputs),
                         .loc = like.loc,
                         .phase = like.phase,
                         .forward = like.forward});
  }

  absl::StatusOr<ValueId> Cast(const Node& like, absl::string_view suffix, ValueId value, DType dtype) {
    proto::Cast options;
    options.set_dtype(proto::FromDType(dtype));
    SNUG_ASSIGN_OR_RETURN(const NodeId node, AddLike(like, suffix, "cast", {value}, proto::MakeOptions(options)));
    return graph_.node(node).outputs[0];
  }

  // Makes of a gradient what it would have in its rows: node by node the same.
  absl::StatusOr<RowList> MakeList(ValueId gradient) {
    const Node node = *Producer(gradient);
    graph_.SetInsertionPoint(node.next);
    if (node.op == "embedding_grad") {
      SNUG_ASSIGN_OR_RETURN(const NodeId made,
                            AddLike(node, "_rows", "embedding_grad_rows", node.inputs, node.options));
      graph_.SetInsertionPoint(NodeId());
      return RowList{graph_.node(made).outputs[0], graph_.node(made).outputs[1]};
    }
    std::vector<RowList> parts;
    for (const ValueId input : node.inputs) {
      SNUG_ASSIGN_OR_RETURN(parts.emplace_back(), MakeList(input));
    }
    graph_.SetInsertionPoint(graph_.node(graph_.value(gradient).producer).next);
    RowList list = parts.front();
    if (IsCast(node)) {
      SNUG_ASSIGN_OR_RETURN(list.rows, Cast(node, "_rows", list.rows, graph_.type(gradient).dtype));
    } else {
      SNUG_ASSIGN_OR_RETURN(list, Sum(node, parts));
    }
    graph_.SetInsertionPoint(NodeId());
    return list;
  }

  // add_n adds in float and rounds once. Two numbers are rounded once in any case; more go the long way round.
  absl::StatusOr<RowList> Sum(const Node& like, std::vector<RowList> parts) {
    const DType dtype = graph_.type(parts.front().rows).dtype;
    const bool widens = dtype == DType::kBFloat16 && parts.size() > 2;
    if (widens) {
      for (RowList& part : parts) {
        SNUG_ASSIGN_OR_RETURN(part.rows, Cast(like, "_rows/float32", part.rows, DType::kFloat32));
      }
    }
    RowList sum = parts.front();
    for (size_t i = 1; i < parts.size(); ++i) {
      SNUG_ASSIGN_OR_RETURN(
          const NodeId added,
          AddLike(like, "_rows", "add_rows", {sum.numbers, sum.rows, parts[i].numbers, parts[i].rows}, Options()));
      sum = {graph_.node(added).outputs[0], graph_.node(added).outputs[1]};
    }
    if (widens) {
      SNUG_ASSIGN_OR_RETURN(sum.rows, Cast(like, "_rows/bfloat16", sum.rows, dtype));
    }
    return sum;
  }

  void RemoveWhole(ValueId gradient) {
    const NodeId id = graph_.value(gradient).producer;
    const Node node = graph_.node(id);
    graph_.RemoveNode(id);
    if (node.op == "embedding_grad") return;
    for (const ValueId part : node.inputs) RemoveWhole(part);
  }

  // A bfloat16 network looks up a bfloat16 copy of the table, which has half of its bytes. The rows of the table
  // itself, cast, are the same.
  absl::Status LookUpBeforeCasts(ValueId table) {
    for (const NodeId cast_id : Readers(table)) {
      if (graph_.node(cast_id).removed || !IsCast(graph_.node(cast_id))) continue;
      const ValueId copy = graph_.node(cast_id).outputs[0];
      const DType dtype = graph_.type(copy).dtype;
      bool all = true;
      for (const NodeId reader : Readers(copy)) {
        if (!IsLookup(reader, copy)) {
          all = false;
          continue;
        }
        const Node lookup = graph_.node(reader);
        graph_.SetInsertionPoint(reader);
        SNUG_ASSIGN_OR_RETURN(const NodeId wide,
                              AddLike(lookup, "/rows", "embedding", {lookup.inputs[0], table}, lookup.options));
        SNUG_ASSIGN_OR_RETURN(const ValueId narrow,
                              Cast(lookup, absl::StrCat("/", Name(dtype)), graph_.node(wide).outputs[0], dtype));
        graph_.SetInsertionPoint(NodeId());
        graph_.ReplaceUses(lookup.outputs[0], narrow);
        graph_.RemoveNode(reader);
      }
      const bool kept = absl::c_any_of(graph_.outputs, [&](const Output& output) { return output.value == copy; });
      if (all && !kept) graph_.RemoveNode(cast_id);
    }
    return absl::OkStatus();
  }

  GraphBuilder& builder_;
  Graph& graph_;
  const proto::Optimizer& optimizer_;
  const std::unordered_map<ValueId, ValueId>& gradients_;
  const RowGradientOptions& options_;
  std::vector<std::vector<NodeId>> readers_;  // before anything was changed
};

}  // namespace

std::string TablesText(const std::vector<TableGradient>& tables) {
  std::string text;
  for (const TableGradient& table : tables) {
    absl::StrAppend(&text, "table ", table.table, ": ");
    if (!table.rows) {
      absl::StrAppend(&text, "its gradient is whole, ", table.entries, " rows: ", table.why, "\n");
      continue;
    }
    absl::StrAppend(&text, "its gradient is a list of at most ", table.most_rows, " of ", table.entries, " rows; ",
                    table.exact ? "the same bits as of the whole" : "the other rows are left alone, as was asked for",
                    "\n");
  }
  return text;
}

void WriteTables(const std::vector<TableGradient>& tables, Json& json) {
  json.Key("tables").Array();
  for (const TableGradient& table : tables) {
    json.Object().Key("name").String(table.table).Key("entries").Number(table.entries);
    json.Key("rows").Bool(table.rows).Key("most_rows").Number(table.most_rows);
    json.Key("same_bits").Bool(table.exact).Key("why_whole").String(table.why).End();
  }
  json.End();
}

absl::StatusOr<std::unordered_map<ValueId, RowList>> MakeRowGradients(
    GraphBuilder& builder, const proto::Optimizer& optimizer, const std::unordered_map<ValueId, ValueId>& gradients,
    const RowGradientOptions& options, std::vector<TableGradient>* tables) {
  // A graph without tables is not searched for their readers, once for each of what may be many updates.
  const Graph& graph = builder.graph();
  bool has_tables = !options.tables.patterns.empty();
  for (NodeId id = graph.first_node(); id.valid() && !has_tables; id = graph.node(id).next) {
    has_tables = graph.node(id).op == "embedding";
  }
  if (!has_tables) return std::unordered_map<ValueId, RowList>();
  return RowGradients(builder, optimizer, gradients, options).Run(tables);
}

}  // namespace snug::core
