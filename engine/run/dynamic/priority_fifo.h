// A queue of intrusive nodes: the highest priority first, and first in, first out within one. Thread-compatible.
#pragma once

#include <cstdint>
#include <iterator>
#include <vector>

namespace snug {

// Node has `Node* next` and `int32_t priority`. Takes one step for each higher priority that is in the queue.
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
  // What Pop() would give, or null.
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
  std::vector<Level> levels_;  // by rising priority, none empty
};

}  // namespace snug
