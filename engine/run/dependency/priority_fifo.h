// A queue of intrusive nodes: the highest priority comes first, and within one priority the node that waits longest.
// Thread-compatible.
#pragma once

#include <cstdint>
#include <iterator>
#include <vector>

namespace snug::core {

// Node needs `Node* next` and `int32_t priority`. Push takes one step for each higher priority in the queue.
template <class Node>
class PriorityFifo {
 public:
  void Push(Node* node) {
    auto at = levels_.end();
    while (at != levels_.begin() && std::prev(at)->priority > node->priority) --at;
    if (at == levels_.begin() || std::prev(at)->priority != node->priority) {
      at = levels_.insert(at, Level{node->priority, nullptr, nullptr});
    } else {
      --at;
    }
    node->next = nullptr;
    (at->last == nullptr ? at->first : at->last->next) = node;
    at->last = node;
  }
  // Returns what Pop() would, or null.
  Node* Top() const { return levels_.empty() ? nullptr : levels_.back().first; }
  Node* Pop() {
    Level& level = levels_.back();
    Node* node = level.first;
    level.first = node->next;
    if (level.first == nullptr) levels_.pop_back();
    return node;
  }

 private:
  struct Level {
    int32_t priority;
    Node *first, *last;
  };
  std::vector<Level> levels_;  // by rising priority, none of them empty
};

}  // namespace snug::core
