#include "memory/batch/batch_frame.h"

#include <absl/strings/str_cat.h>

#include <algorithm>

#include "engine/base/status.h"

namespace snug::core::memory {
namespace {

// Says of each value whether it is its producer's own, as a workspace is: nobody else uses it, and it is written over
// nothing.
std::vector<char> OwnValues(const Tasks& tasks) {
  std::vector<char> own;
  own.reserve(tasks.values.size());
  for (const TaskValue& value : tasks.values) {
    own.push_back(value.producer >= 0 && value.readers.empty() && !value.resident && !value.fetched);
  }
  for (const TaskInPlace& pair : tasks.in_place) {
    own[static_cast<size_t>(pair.output)] = own[static_cast<size_t>(pair.input)] = 0;
  }
  return own;
}

// The values that are handed on from task to task, by number.
std::vector<int32_t> HandedOn(const Tasks& tasks) {
  const std::vector<char> own = OwnValues(tasks);
  std::vector<int32_t> values;
  for (size_t v = 0; v < own.size(); ++v) {
    if (!own[v]) values.push_back(static_cast<int32_t>(v));
  }
  return values;
}

std::vector<int32_t> NumbersOf(const Tasks& tasks, const std::vector<int32_t>& values) {
  std::vector<int32_t> number(tasks.values.size(), -1);
  for (size_t i = 0; i < values.size(); ++i) number[static_cast<size_t>(values[i])] = static_cast<int32_t>(i);
  return number;
}

// The step's pairs, by these numbers of values.
std::vector<std::pair<int32_t, int32_t>> PairsOf(const Tasks& tasks, const std::vector<int32_t>& number) {
  std::vector<std::pair<int32_t, int32_t>> pairs;
  pairs.reserve(tasks.in_place.size());
  for (const TaskInPlace& pair : tasks.in_place) {
    pairs.emplace_back(number[static_cast<size_t>(pair.output)], number[static_cast<size_t>(pair.input)]);
  }
  return pairs;
}

std::string QuotedTask(const std::vector<std::string>& names, size_t i) {
  return i < names.size() ? absl::StrCat("\"", names[i], "\"") : std::string("none");
}

bool SameUse(const TaskValue& a, const TaskValue& b) {
  return a.name == b.name && a.producer == b.producer && a.readers == b.readers && a.resident == b.resident &&
         a.fetched == b.fetched && a.alignment == b.alignment;
}

}  // namespace

std::string DifferenceOf(const Tasks& a, const Tasks& b) {
  if (a.names != b.names) {
    const size_t most = std::min(a.names.size(), b.names.size());
    size_t at = 0;
    while (at < most && a.names[at] == b.names[at]) ++at;
    return absl::StrCat("task ", at, " is ", QuotedTask(b.names, at), " in place of ", QuotedTask(a.names, at), ", of ",
                        b.names.size(), " in place of ", a.names.size());
  }
  const std::vector<int32_t> values_a = HandedOn(a), values_b = HandedOn(b);
  for (size_t i = 0; i < std::max(values_a.size(), values_b.size()); ++i) {
    if (i >= values_a.size() || i >= values_b.size()) {
      const bool more = i < values_b.size();
      const TaskValue& value =
          more ? b.values[static_cast<size_t>(values_b[i])] : a.values[static_cast<size_t>(values_a[i])];
      return absl::StrCat("value \"", value.name, "\" is ", more ? "new" : "gone");
    }
    const TaskValue& value_a = a.values[static_cast<size_t>(values_a[i])];
    const TaskValue& value_b = b.values[static_cast<size_t>(values_b[i])];
    if (value_a.name != value_b.name) {
      return absl::StrCat("value \"", value_b.name, "\" is in place of \"", value_a.name, "\"");
    }
    if (!SameUse(value_a, value_b)) return absl::StrCat("value \"", value_b.name, "\" is used otherwise");
  }
  if (a.edges != b.edges) return "tasks wait for others";
  if (PairsOf(a, NumbersOf(a, values_a)) != PairsOf(b, NumbersOf(b, values_b))) {
    return "other values may be written over each other";
  }
  return "";
}

template <typename Visit>
void BatchFrame::ForEachOwn(const Tasks& tasks, const Visit& visit) {
  const std::vector<char> own = OwnValues(tasks);
  std::map<std::pair<int32_t, std::string>, int32_t> met;
  for (size_t v = 0; v < own.size(); ++v) {
    if (!own[v]) continue;
    const std::pair name(tasks.values[v].producer, tasks.values[v].name);
    visit(Key(name, met[name]++), static_cast<int32_t>(v));
  }
}

BatchFrame::BatchFrame(const Tasks& first)
    : tasks_{.names = first.names, .edges = first.edges}, may_share_(first.in_place.size(), 1) {
  const std::vector<int32_t> values = HandedOn(first);
  for (const int32_t value : values) tasks_.values.push_back(first.values[static_cast<size_t>(value)]);
  for (const auto& [output, input] : PairsOf(first, NumbersOf(first, values))) {
    tasks_.in_place.push_back({output, input});
  }
  Add(first);
}

void BatchFrame::Add(const Tasks& tasks) {
  ForEachOwn(tasks, [&](const Key& key, int32_t value) {
    if (!own_.try_emplace(key, static_cast<int32_t>(tasks_.values.size())).second) return;
    tasks_.values.push_back(tasks.values[static_cast<size_t>(value)]);
  });
  for (size_t i = 0; i < tasks.in_place.size(); ++i) {
    const auto [output, input] = tasks.in_place[i];
    const int64_t bytes = tasks.values[static_cast<size_t>(output)].size_bytes;
    if (bytes > tasks.values[static_cast<size_t>(input)].size_bytes) may_share_[i] = 0;
  }
}

Tasks BatchFrame::Complete(const Tasks& tasks) const {
  Tasks complete = tasks_;
  complete.cost = tasks.cost;
  complete.in_place.clear();
  const absl::StatusOr<std::vector<int32_t>> found = Find(tasks);
  SNUG_CHECK(found.ok());
  for (size_t v = 0; v < complete.values.size(); ++v) {
    const int32_t value = (*found)[v];
    const int64_t bytes = value < 0 ? 0 : tasks.values[static_cast<size_t>(value)].size_bytes;
    complete.values[v].size_bytes = std::max<int64_t>(bytes, 1);
  }
  for (size_t i = 0; i < may_share_.size(); ++i) {
    if (may_share_[i]) complete.in_place.push_back(tasks_.in_place[i]);
  }
  return complete;
}

absl::StatusOr<std::vector<int32_t>> BatchFrame::Find(const Tasks& tasks) const {
  if (const std::string difference = DifferenceOf(tasks_, tasks); !difference.empty()) {
    return absl::InvalidArgumentError(absl::StrCat("the step is not one of those that the plan is for: ", difference));
  }
  std::vector<int32_t> found = HandedOn(tasks);
  found.resize(tasks_.values.size(), -1);
  absl::Status status;
  ForEachOwn(tasks, [&](const Key& key, int32_t value) {
    const auto it = own_.find(key);
    if (it != own_.end()) {
      found[static_cast<size_t>(it->second)] = value;
    } else if (tasks.values[static_cast<size_t>(value)].size_bytes > 0) {
      status = absl::InvalidArgumentError(absl::StrCat("the step is not one of those that the plan is for: value \"",
                                                       tasks.values[static_cast<size_t>(value)].name, "\" is new"));
    }
  });
  SNUG_RETURN_IF_ERROR(status);
  return found;
}

}  // namespace snug::core::memory
