// What the steps of several batches have in common: the tasks, who hands what to whom, and what may be written over
// what. Only sizes differ; and workspaces, which a kernel may need for some batches and not for others.
#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "memory/tasks.h"

namespace snug::core::memory {

// Returns the first thing in which the steps differ, for a person to read: `b` is the one that it speaks of. Empty
// where they are the same but for sizes, costs, and values that nobody but their producer uses.
std::string DifferenceOf(const Tasks& a, const Tasks& b);

class BatchFrame {
 public:
  explicit BatchFrame(const Tasks& first);

  // Takes in the step of another batch, which must not differ.
  void Add(const Tasks& tasks);

  // Returns the step of a batch with all values that any batch has, in the frame's own sequence, and at least a byte
  // for each. An output may be written over an input as all batches allow. `tasks` is one that was taken in.
  Tasks Complete(const Tasks& tasks) const;

  // Returns for each of the frame's values its number in `tasks`, or -1 for one that it does not have. Fails where
  // `tasks` differs, or has a value that the frame does not know.
  absl::StatusOr<std::vector<int32_t>> Find(const Tasks& tasks) const;

 private:
  // Tells values apart that nobody but their producer uses: its number, their name, and how many of that name it had
  // before.
  using Key = std::pair<std::pair<int32_t, std::string>, int32_t>;

  template <typename Visit>
  static void ForEachOwn(const Tasks& tasks, const Visit& visit);

  Tasks tasks_;                  // first the values that are handed on, then the others as they were found
  std::vector<char> may_share_;  // by pair of tasks_.in_place: whether all batches allow it
  std::map<Key, int32_t> own_;   // number of the frame's value
};

}  // namespace snug::core::memory
