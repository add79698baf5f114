#include "engine/compile/control/loop_paths.h"

#include <absl/algorithm/container.h>

#include <cstddef>

#include "proto/loops.pb.h"

namespace snug::core {
namespace {

class PathFinder {
 public:
  PathFinder(const Graph& body, const proto::NormalLoop& options, const std::vector<ValueId>& output_grads,
             const std::vector<bool>& wanted)
      : body_(body), options_(options), output_grads_(output_grads), wanted_(wanted) {
    paths_.active.assign(body.inputs().size(), false);
  }

  LoopPaths Run() {
    FindActive();
    FindSeeded();
    return paths_;
  }

 private:
  template <class Id>
  static size_t Index(Id id) {
    return static_cast<size_t>(id.index);
  }
  ValueId InputAt(int port) const { return body_.inputs()[static_cast<size_t>(port)]; }
  ValueId OutputAt(int port) const { return body_.outputs[static_cast<size_t>(port)].value; }

  // What depends on inputs that are active, by value.
  std::vector<bool> Reached() const {
    std::vector<bool> reached(body_.value_capacity(), false);
    for (size_t i = 0; i < paths_.active.size(); ++i) reached[Index(body_.inputs()[i])] = paths_.active[i];
    for (NodeId id = body_.first_node(); id.valid(); id = body_.node(id).next) {
      const Node& node = body_.node(id);
      if (absl::c_none_of(node.inputs, [&](ValueId v) { return v.valid() && reached[Index(v)]; })) continue;
      for (const ValueId output : node.outputs) reached[Index(output)] = IsFloating(body_.type(output).dtype);
    }
    // The body of a branch that is not taken hands on what it got.
    for (const proto::NormalLoop::Carry& carry : options_.carry()) {
      const ValueId output = OutputAt(carry.output());
      if (options_.has_only_rounds() && paths_.active[static_cast<size_t>(carry.input())])
        reached[Index(output)] = true;
    }
    return reached;
  }

  // An input is active if its gradient is wanted. So is a carry whose value in a later round depends on one that is.
  void FindActive() {
    for (size_t i = 0; i < paths_.active.size(); ++i) {
      paths_.active[i] = wanted_[i] && IsFloating(body_.type(body_.inputs()[i]).dtype);
    }
    for (bool changed = true; changed;) {
      changed = false;
      paths_.reached = Reached();
      for (const proto::NormalLoop::Carry& carry : options_.carry()) {
        if (paths_.active[static_cast<size_t>(carry.input())] || !paths_.reached[Index(OutputAt(carry.output()))])
          continue;
        paths_.active[static_cast<size_t>(carry.input())] = true;
        changed = true;
      }
    }
  }

  bool HasGradient(int result) const { return output_grads_[static_cast<size_t>(result)].valid(); }

  // Gradients flow into what the loop puts out, if they do there, and into a carry that a later round passes them to.
  void FindSeeded() {
    std::vector<bool> flows(body_.value_capacity(), false);
    const auto seed = [&](ValueId output) {
      if (!paths_.reached[Index(output)]) return false;
      flows[Index(output)] = true;
      return true;
    };
    for (int k = 0; k < options_.collect_size(); ++k) {
      const proto::NormalLoop::Along& collect = options_.collect(k);
      if (collect.has_result() && HasGradient(collect.result()) && seed(OutputAt(collect.port()))) {
        paths_.seeded_collects.push_back(k);
      }
    }
    std::vector<bool> seeded(static_cast<size_t>(options_.carry_size()), false);
    for (int k = 0; k < options_.carry_size(); ++k) {
      const proto::NormalLoop::Carry& carry = options_.carry(k);
      seeded[static_cast<size_t>(k)] =
          carry.has_result() && HasGradient(carry.result()) && seed(OutputAt(carry.output()));
    }
    for (bool changed = true; changed;) {
      changed = false;
      for (NodeId id = body_.last_node(); id.valid(); id = body_.node(id).previous) {
        const Node& node = body_.node(id);
        if (absl::c_none_of(node.outputs, [&](ValueId v) { return flows[Index(v)]; })) continue;
        for (const ValueId input : node.inputs) {
          if (input.valid() && paths_.reached[Index(input)]) flows[Index(input)] = true;
        }
      }
      for (int k = 0; k < options_.carry_size(); ++k) {
        const proto::NormalLoop::Carry& carry = options_.carry(k);
        if (seeded[static_cast<size_t>(k)] || !flows[Index(InputAt(carry.input()))]) continue;
        if (!seed(OutputAt(carry.output()))) continue;
        seeded[static_cast<size_t>(k)] = true;
        changed = true;
      }
    }
    for (int k = 0; k < options_.carry_size(); ++k) {
      if (seeded[static_cast<size_t>(k)]) paths_.seeded_carries.push_back(k);
    }
  }

  const Graph& body_;
  const proto::NormalLoop& options_;
  const std::vector<ValueId>& output_grads_;
  const std::vector<bool>& wanted_;
  LoopPaths paths_;
};

}  // namespace

LoopPaths FindPaths(const Graph& body, const proto::NormalLoop& options, const std::vector<ValueId>& output_grads,
                    const std::vector<bool>& wanted) {
  return PathFinder(body, options, output_grads, wanted).Run();
}

}  // namespace snug::core
