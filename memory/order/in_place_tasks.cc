#include "memory/order/in_place_tasks.h"

#include <absl/strings/str_cat.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "engine/base/status.h"
#include "memory/order/task_net.h"
#include "memory/partial_order.h"

namespace snug::core::memory {
namespace {

// Knows which tasks follow which in every order. For larger graphs it knows only most of these pairs (Reachability):
// all of them could take as much room as there are pairs.
class Followers {
 public:
  static absl::StatusOr<Followers> Create(const Tasks& tasks) {
    constexpr int32_t kSmall = 5000;
    Followers followers;
    if (tasks.size() <= kSmall) {
      SNUG_ASSIGN_OR_RETURN(followers.all_, PartialOrder::Create(tasks.size(), PrecedenceOf(tasks)));
    } else {
      const TaskNet net(tasks);
      followers.most_.emplace(net.after, net.ProgramOrder());
    }
    return followers;
  }

  bool SurelyFollows(int32_t task, int32_t other) const {
    return all_.has_value() ? all_->Before(other, task) : most_->SurelyFollows(task, other);
  }

 private:
  std::optional<PartialOrder> all_;
  std::optional<Reachability> most_;
};

class Rewriter {
 public:
  Rewriter(const Tasks& tasks, const Followers& followers)
      : tasks_(tasks), followers_(followers), input_of_(tasks.values.size(), -1), taken_(tasks.values.size(), 0) {}

  InPlaceTasks Run() {
    Match();
    result_.tasks = tasks_;
    result_.tasks.in_place.clear();
    for (int32_t t = 0; t < tasks_.size(); ++t) result_.origin.push_back(t);
    CutInTwo();
    Join();
    return std::move(result_);
  }

 private:
  const TaskValue& Old(int32_t value) const { return tasks_.values[static_cast<size_t>(value)]; }
  TaskValue& New(int32_t value) { return result_.tasks.values[static_cast<size_t>(value)]; }

  bool MayLieOn(const TaskInPlace& pair) const {
    const TaskValue& output = Old(pair.output);
    const TaskValue& input = Old(pair.input);
    return pair.output != pair.input && output.producer >= 0 && !output.resident && !input.resident && !input.fetched &&
           output.size_bytes <= input.size_bytes;
  }

  // Tells whether the output's writer is known to be the last reader of the input in every order.
  bool Always(const TaskInPlace& pair) const {
    const int32_t writer = Old(pair.output).producer;
    const std::vector<int32_t>& readers = Old(pair.input).readers;
    // Of many readers most are not the last, which shows soon: whether the writer is one of them is asked at the end.
    return Old(pair.output).size_bytes == Old(pair.input).size_bytes &&
           std::all_of(readers.begin(), readers.end(),
                       [&](int32_t reader) { return reader == writer || followers_.SurelyFollows(writer, reader); }) &&
           std::find(readers.begin(), readers.end(), writer) != readers.end();
  }

  // Chooses pairs, the largest first; ties go to the pair that the tasks list first.
  void Match() {
    std::vector<TaskInPlace> pairs;
    for (const TaskInPlace& pair : tasks_.in_place) {
      if (MayLieOn(pair) && Always(pair)) pairs.push_back(pair);
    }
    std::stable_sort(pairs.begin(), pairs.end(), [&](const TaskInPlace& a, const TaskInPlace& b) {
      return Old(a.output).size_bytes > Old(b.output).size_bytes;
    });
    for (const TaskInPlace& pair : pairs) {
      int32_t& input = input_of_[static_cast<size_t>(pair.output)];
      char& taken = taken_[static_cast<size_t>(pair.input)];
      if (input >= 0 || taken) continue;
      input = pair.input;
      taken = 1;
    }
  }

  void CutInTwo() {
    std::vector<int32_t> second_half(tasks_.names.size(), -1);
    for (const TaskInPlace& pair : tasks_.in_place) {
      if (!MayLieOn(pair) || input_of_[static_cast<size_t>(pair.output)] >= 0 ||
          taken_[static_cast<size_t>(pair.input)]) {
        continue;
      }
      const int32_t writer = Old(pair.output).producer;
      int32_t& half = second_half[static_cast<size_t>(writer)];
      if (half < 0) {
        half = result_.tasks.size();
        result_.tasks.names.push_back(absl::StrCat(tasks_.names[static_cast<size_t>(writer)], "/write"));
        if (!result_.tasks.cost.empty()) result_.tasks.cost.push_back(0);
        result_.origin.push_back(-1);
        result_.tasks.edges.emplace_back(writer, half);
      }
      New(pair.output).producer = half;
    }
  }

  // Makes each chain of outputs over inputs one value, at its head; the others keep no bytes.
  void Join() {
    for (size_t v = 0; v < tasks_.values.size(); ++v) {
      const auto value = static_cast<int32_t>(v);
      if (input_of_[v] < 0) continue;
      TaskValue& joined = New(HeadOf(value));
      joined.readers.insert(joined.readers.end(), Old(value).readers.begin(), Old(value).readers.end());
      joined.fetched |= Old(value).fetched;
      New(value).size_bytes = 0;  // keeps the value, because its readers still follow its writer
      New(value).fetched = false;
    }
    for (TaskValue& value : result_.tasks.values) {
      std::sort(value.readers.begin(), value.readers.end());
      value.readers.erase(std::unique(value.readers.begin(), value.readers.end()), value.readers.end());
    }
  }

  // Returns the value that it lies on in the end. Each way there is halved, for chains may be as long as the graph.
  int32_t HeadOf(int32_t value) {
    const auto next = [&](int32_t v) -> int32_t& { return input_of_[static_cast<size_t>(v)]; };
    while (next(value) >= 0) {
      if (next(next(value)) >= 0) next(value) = next(next(value));
      value = next(value);
    }
    return value;
  }

  const Tasks& tasks_;
  const Followers& followers_;
  std::vector<int32_t> input_of_;  // by value: an input that it always lies on, or -1
  std::vector<char> taken_;        // by value: whether another one always lies on it
  InPlaceTasks result_;
};

}  // namespace

TaskOrder InPlaceTasks::OriginalOrder(const TaskOrder& order) const {
  TaskOrder result;
  for (const int32_t task : order) {
    if (origin[static_cast<size_t>(task)] >= 0) result.push_back(origin[static_cast<size_t>(task)]);
  }
  return result;
}

absl::StatusOr<InPlaceTasks> WithoutInPlace(const Tasks& tasks) {
  SNUG_RETURN_IF_ERROR(CheckTasks(tasks));
  if (tasks.in_place.empty()) {
    InPlaceTasks same{.tasks = tasks};
    for (int32_t t = 0; t < tasks.size(); ++t) same.origin.push_back(t);
    return same;
  }
  SNUG_ASSIGN_OR_RETURN(const Followers followers, Followers::Create(tasks));
  return Rewriter(tasks, followers).Run();
}

}  // namespace snug::core::memory
