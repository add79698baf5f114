// A pretended CUDA graph: pieces of work, and which of them come before which.
#pragma once

#include <algorithm>
#include <functional>
#include <random>
#include <set>
#include <vector>

namespace snug::core::cuda {

class FakeGraph {
 public:
  using Nodes = std::set<size_t>;

  // Adds a node and returns its number.
  size_t Add(const Nodes& after, std::function<void()> run) {
    nodes_.push_back({after, std::move(run)});
    return nodes_.size() - 1;
  }
  size_t size() const { return nodes_.size(); }

  // Says whether every node of `some` is one of `last`, or comes before one.
  bool AllBefore(const Nodes& some, const Nodes& last) const {
    Nodes before = last;
    for (size_t i = nodes_.size(); i-- > 0;) {  // a node comes after what it depends on
      if (before.contains(i)) before.insert(nodes_[i].after.begin(), nodes_[i].after.end());
    }
    return std::includes(before.begin(), before.end(), some.begin(), some.end());
  }

  // Says whether the graphs differ only in what their nodes do.
  bool LooksLike(const FakeGraph& other) const {
    return std::equal(nodes_.begin(), nodes_.end(), other.nodes_.begin(), other.nodes_.end(),
                      [](const Node& a, const Node& b) { return a.after == b.after; });
  }

  // Runs everything, in one of the sequences that the dependencies allow.
  void Run(std::mt19937_64& random) const {
    std::vector<size_t> left(nodes_.size());
    for (size_t i = 0; i < left.size(); ++i) left[i] = i;
    Nodes done;
    while (!left.empty()) {
      const size_t at = random() % left.size();
      const Node& node = nodes_[left[at]];
      if (!std::includes(done.begin(), done.end(), node.after.begin(), node.after.end())) continue;
      node.run();
      done.insert(left[at]);
      left.erase(left.begin() + static_cast<std::ptrdiff_t>(at));
    }
  }

 private:
  struct Node {
    Nodes after;
    std::function<void()> run;
  };
  std::vector<Node> nodes_;
};

}  // namespace snug::core::cuda
