// Says whose bytes a value lies on, if not its own: those of another value, of which it is a view, or the caller's.
#pragma once

#include <absl/status/statusor.h>
#include <absl/types/span.h>

#include <cstdint>
#include <string>
#include <vector>

#include "engine/compile/kernels/choose.h"
#include "engine/graph/graph.h"
#include "ops/registry.h"

namespace snug::core {

// The nodes of a graph that may be views, or write over parts, by their types, wherever their values may lie, in
// program order. Whoever tries many choices of views on one graph finds them once.
class PossibleViews {
 public:
  // An output that may be written over an input, where that is a part of a larger value.
  struct OverPart {
    int output = 0, input = 0;
    NodeId cuts;  // the view that makes the part
  };
  struct View {
    NodeId node;
    bool always = false;  // by its op: its outputs are its first input
    // Where each output begins in input 0, or each input in output 0. Empty: they cannot lie there.
    std::vector<int64_t> in_input, in_output;
    bool optional = false;       // it may be a copy
    bool put_out = false;        // its output 0 is one of the graph's
    std::vector<OverPart> over;  // only of a node that is no view
  };

  // `alignment` says where values may begin, so that kernels find all of them alike (Device::alignment).
  PossibleViews(const Graph& graph, const OpRegistry& registry, int64_t alignment);

  const Graph& graph() const { return graph_; }
  const std::vector<View>& views() const { return views_; }
  // Those that may be copies instead.
  std::vector<NodeId> Optional() const;
  bool AnyOverParts() const;
  // By node id: 1 for each that may be a copy, and for each node that may write over a part.
  std::vector<char> AllCopied() const;

 private:
  const Graph& graph_;
  std::vector<View> views_;
};

// Finds which values lie within the bytes of others, so that the nodes between them have nothing to do: views by their
// op (reshape, flatten, ...), parts that are one range of what they are cut from (slice, split), and parts that are
// written where the whole needs them (concat). The latter two may be copied instead, because a view keeps all bytes of
// the value that it lies in.
//
// What a node makes of a part in place is written where the part lies, if nobody else reads the part, nor the value
// that it is cut from. So the rounds of a loop that is unrolled write what they keep over what was made for all of
// them, and their gradients over that; joined in the same sequence, these lie where the whole is wanted already.
class Views {
 public:
  // `copied` says by node id which of the optional views are copies, and which nodes write over no parts. The graph
  // must outlive this.
  Views(const PossibleViews& possible, const std::vector<char>& copied);

  // Tells whether the node is a view, which runs nothing.
  bool IsView(NodeId node) const { return is_view_[static_cast<size_t>(node.index)] != 0; }
  // The value on whose bytes it lies (itself, if it has its own), and the byte from which it does.
  ValueId RootOf(ValueId value) const;
  int64_t OffsetOf(ValueId value) const;

 private:
  struct BytesWithin {
    ValueId in;  // invalid when it has bytes of its own
    int64_t offset = 0;
  };

  BytesWithin& within(ValueId value) { return within_[static_cast<size_t>(value.index)]; }
  const BytesWithin& within(ValueId value) const { return within_[static_cast<size_t>(value.index)]; }
  bool LieInInput(const Node& node, const std::vector<int64_t>& offsets);
  void WriteOver(const Node& node, const PossibleViews::OverPart& over);
  bool LieInOutput(const Node& node, const std::vector<int64_t>& offsets);
  bool LieWhereInputsAre(const Node& node, const std::vector<int64_t>& offsets);

  const Graph& graph_;
  std::vector<char> is_view_;        // indexed by node id
  std::vector<char> overwritten_;    // indexed by value id: it owns bytes, parts of which are written over
  std::vector<BytesWithin> within_;  // indexed by value id
};

// Inputs and outputs whose bytes are the caller's (CompileOptions::bound). The caller says before a step where they
// lie; the step reads and writes them there, and the plan has no bytes for them.
struct CallerValue {
  std::string name;
  ValueId value;
  bool input = false;  // an input, which no step writes; otherwise an output, which its producer writes
};

// The result is in the sequence of `names`. `alignment` is that of PossibleViews. Fails with InvalidArgument or
// NotFound where a name is no input or output with bytes of its own.
absl::StatusOr<std::vector<CallerValue>> FindCallerValues(const Graph& graph, const OpRegistry& registry,
                                                          int64_t alignment, absl::Span<const std::string> names);

// Returns, by node id, which views must be copies, so that none of the caller's outputs lies within a larger value.
std::vector<char> CopiedForCaller(const PossibleViews& possible, absl::Span<const CallerValue> bound);

// Decides which of the values that could be views really are, and which are copied. Chooses the views with which the
// least possible peak of the given order (GivenOrder) is lowest; of equal choices, the one that keeps fewer bytes for a
// shorter time. Parts are written over where that takes less still. The choice depends on the graph only, so it is the
// same under every strategy. Values in which an output of the caller's (`bound`) would lie are copied.
Views ChooseViews(const Graph& graph, const OpRegistry& registry, const std::vector<KernelChoice>& kernels,
                  int64_t alignment, bool keep_inputs, absl::Span<const CallerValue> bound = {});

}  // namespace snug::core
