#include "memory/place/search.h"

#include <algorithm>
#include <limits>

#include "engine/base/random.h"

namespace snug::core::memory {
namespace {

constexpr int64_t kNoFloor = std::numeric_limits<int64_t>::max() / 4;
constexpr int64_t kWorkPerLook = 1'000'000;  // how often it looks at the clock
constexpr size_t kMaxTable = size_t{1} << 20, kMinTable = size_t{1} << 14;

// For two items of one shape that lie on each other, one sequence is enough to try. The item with more padding goes on
// top, because its padding may stick out there; otherwise they go as in the instance.
bool GoesUnder(const Instance& instance, int32_t a, int32_t b) {
  const int64_t padding_a = instance.items[static_cast<size_t>(a)].padding;
  const int64_t padding_b = instance.items[static_cast<size_t>(b)].padding;
  return padding_a != padding_b ? padding_a < padding_b : a < b;
}

}  // namespace

void PlacementSearch::SetPreferences(const SearchStyle& style) {
  const Instance& instance = state_.instance();
  const std::vector<int64_t> load = LoadOf(instance);
  preference_.clear();
  item_key_.clear();
  for (size_t i = 0; i < instance.size(); ++i) {
    const Item& item = instance.items[i];
    const double sections = item.last - item.first + 1;
    const auto size = static_cast<double>(item.size);
    double preference = 0;
    switch (style.preference) {
      case ItemPreference::kLongest:
        preference = sections;
        break;
      case ItemPreference::kLargest:
        preference = size;
        break;
      case ItemPreference::kArea:
        preference = size * sections;
        break;
      case ItemPreference::kLoad:
        preference = static_cast<double>(*std::max_element(load.begin() + item.first, load.begin() + item.last + 1)) *
                         static_cast<double>(instance.sections) +
                     sections;
        break;
    }
    const double draw = ToUniform(static_cast<uint32_t>(MixKeys(style.seed, i) >> 32));
    item_key_.push_back(MixKeys(i, 1));
    preference_.push_back(preference * (1 + style.noise * (2 * draw - 1)));
  }
}

Verdict PlacementSearch::Run(int64_t capacity, const SearchStyle& style, int64_t work,
                             const std::function<bool()>& stop) {
  const auto sections = static_cast<size_t>(state_.instance().sections);
  SetPreferences(style);
  learn_ = style.learn;
  weight_.assign(sections, 1);
  stop_ = &stop;
  work_end_ = state_.work() + work;
  next_look_ = 0;
  size_t table = kMinTable;
  while (table < kMaxTable && static_cast<int64_t>(table) < work / 32) table *= 2;
  failed_.assign(table, 0);
  valley_.assign(sections, -1);
  supports_.assign(sections + 1, 0);
  cover_.assign(sections + 1, 0);
  step_.assign(sections, 0);
  items_.clear();
  for (size_t i = 0; i < state_.instance().size(); ++i) items_.push_back(static_cast<int32_t>(i));
  if (!state_.Begin(capacity)) return Verdict::kDoesNotFit;
  depth_ = 0;
  Cut({0, state_.instance().sections - 1, 0, items_.size()}, Push());
  return Search();
}

bool PlacementSearch::OutOfWork() {
  if (state_.work() >= work_end_) return true;
  if (state_.work() < next_look_) return false;
  next_look_ = state_.work() + kWorkPerLook;
  return (*stop_)();
}

// Cuts what is left where no item is on both sides. The smallest piece is solved first, because all must be solved and
// it fails soonest.
void PlacementSearch::Cut(const Part& whole, Node& node) {
  node.left.clear();
  node.solved = 0;
  for (int32_t from = whole.first, to = from; to <= whole.last; ++to) {
    if (to < whole.last && state_.crossed(to)) continue;
    const size_t begin = items_.size();
    for (size_t k = whole.begin; k < whole.end; ++k) {
      const int32_t i = items_[k];
      const Item& item = state_.instance().items[static_cast<size_t>(i)];
      if (!state_.placed(i) && item.first >= from && item.last <= to) items_.push_back(i);
    }
    state_.AddWork((whole.end - whole.begin) / 2);
    if (items_.size() > begin) node.left.push_back({from, to, begin, items_.size()});
    from = to + 1;
  }
  std::stable_sort(node.left.begin(), node.left.end(),
                   [](const Part& a, const Part& b) { return a.end - a.begin < b.end - b.begin; });
}

void PlacementSearch::FindValleys(const Part& part) {
  const auto level = [&](int32_t s) { return state_.unplaced(s) > 0 ? state_.floor(s) : kNoFloor; };
  // An item with gaps can lie in several valleys at once. Only at the lowest level is it certain that nothing lies
  // below it.
  int64_t highest = kNoFloor - 1;
  if (state_.instance().has_gaps) {
    for (int32_t s = part.first; s <= part.last; ++s) highest = std::min(highest, level(s));
  }
  supports_[static_cast<size_t>(part.first)] = 0;
  for (int32_t from = part.first, to = from; from <= part.last; from = to) {
    const int64_t height = level(from);
    for (; to <= part.last && level(to) == height; ++to) {
      const auto s = static_cast<size_t>(to);
      supports_[s + 1] = supports_[s] + (state_.supported(to) ? 1 : 0);
      cover_[s] = 0;
    }
    const int64_t left = from > part.first ? level(from - 1) : kNoFloor;
    const int64_t right = to <= part.last ? level(to) : kNoFloor;
    const bool is_valley = height < left && height < right && height <= highest;
    std::fill(valley_.begin() + from, valley_.begin() + to, is_valley ? from : -1);
    step_[static_cast<size_t>(from)] = std::min(left, right) - height;
  }
  cover_[static_cast<size_t>(part.last) + 1] = 0;
}

// Tells whether a canonical plan may have the item on the floor of its valley. The item's lowest offset must be that
// level.
bool PlacementSearch::CanLieOnFloor(int32_t index) const {
  const Instance& instance = state_.instance();
  const Item& item = instance.items[static_cast<size_t>(index)];
  if (state_.twin(index) >= 0 && !state_.placed(state_.twin(index))) return false;
  if (item.fixed_offset >= 0 || !instance.same_alignment) return true;
  const bool rests = std::any_of(item.spans.begin(), item.spans.end(), [&](const Span& span) {
    return supports_[static_cast<size_t>(span.last) + 1] > supports_[static_cast<size_t>(span.first)];
  });
  if (!rests) return false;
  const int32_t under = state_.under(item.first);
  return under < 0 || !state_.supported(item.first) || state_.shape(under) != state_.shape(index) ||
         GoesUnder(instance, under, index);
}

// Returns what can lie on the floor of a valley, and counts these items in cover_.
std::vector<int32_t> PlacementSearch::Candidates(const Part& part) {
  std::vector<int32_t> candidates;
  for (size_t k = part.begin; k < part.end; ++k) {
    const int32_t i = items_[k];
    const Item& item = state_.instance().items[static_cast<size_t>(i)];
    const int32_t valley = valley_[static_cast<size_t>(item.first)];
    const int64_t height = state_.floor(item.first);
    if (valley < 0 || state_.least(i) != height) continue;
    const bool even =
        item.spans.size() == 1 || std::all_of(item.spans.begin(), item.spans.end(), [&](const Span& span) {
          for (int32_t s = span.first; s <= span.last; ++s) {
            if (state_.floor(s) != height) return false;
          }
          return true;
        });
    if (!even) continue;
    int64_t& step = step_[static_cast<size_t>(valley)];
    step = std::min(step, item.size);
    if (!CanLieOnFloor(i)) continue;
    candidates.push_back(i);
    for (const Span& span : item.spans) {
      ++cover_[static_cast<size_t>(span.first)];
      --cover_[static_cast<size_t>(span.last) + 1];
    }
  }
  return candidates;
}

// Ties go to the section with the most items left.
PlacementSearch::Choice PlacementSearch::FewestChoices(const Part& part) const {
  const Instance& instance = state_.instance();
  const bool steps_known = instance.same_alignment && !instance.has_gaps && !instance.has_fixed;
  Choice best;
  double best_score = std::numeric_limits<double>::infinity();
  int32_t covering = 0;
  for (int32_t section = part.first; section <= part.last; ++section) {
    const auto s = static_cast<size_t>(section);
    covering += cover_[s];
    if (valley_[s] < 0) continue;
    const int64_t step = steps_known ? step_[static_cast<size_t>(valley_[s])] : 1;
    const int32_t choices = covering + (state_.slack(section) >= step ? 1 : 0);
    const double score = choices / weight_[s];
    const bool better =
        score < best_score || (score == best_score && state_.unplaced(section) > state_.unplaced(best.section));
    if (!better) continue;
    best = {section, choices};
    best_score = score;
  }
  return best;
}

// Hashes all that the rest of the search depends on: which items are left, the floors, and whatever rules out canonical
// plans.
uint64_t PlacementSearch::KeyOf(const Part& part) const {
  uint64_t key = 0;
  for (size_t k = part.begin; k < part.end; ++k) key ^= item_key_[static_cast<size_t>(items_[k])];
  for (int32_t s = part.first; s <= part.last; ++s) {
    const int32_t under = state_.under(s);
    const bool under_matters = under >= 0 && state_.shape_left(under);
    const auto floor = static_cast<uint64_t>(state_.floor(s)) * 2 + (state_.supported(s) ? 1 : 0);
    key = (key ^ (floor + (under_matters ? (static_cast<uint64_t>(under) + 1) << 44 : 0))) * 0x9E3779B97F4A7C15U;
    key ^= key >> 29;
  }
  return std::max<uint64_t>(key, 1);
}

PlacementSearch::Node& PlacementSearch::Push() {
  if (depth_ == path_.size()) path_.emplace_back();
  Node& node = path_[depth_++];
  node.section = -1;
  node.candidates.clear();
  node.tried = 0;
  node.items_mark = items_.size();
  return node;
}

// Goes down into a part and finds what may be done there, without doing it. Where it is known at once how the part
// ends, it stays where it is and says how; kFits means that there is something to try.
Verdict PlacementSearch::Enter(const Part& part) {
  state_.AddWork(part.end - part.begin + static_cast<size_t>(part.last - part.first + 1));
  if (OutOfWork()) return Verdict::kUndecided;
  const uint64_t key = KeyOf(part);
  if (failed_[key % failed_.size()] == key) return Verdict::kDoesNotFit;

  FindValleys(part);
  std::vector<int32_t> candidates = Candidates(part);
  const Choice choice = FewestChoices(part);
  if (choice.count == 0) {
    if (learn_) ++weight_[static_cast<size_t>(choice.section)];
    failed_[key % failed_.size()] = key;
    return Verdict::kDoesNotFit;
  }
  std::erase_if(candidates, [&](int32_t i) {
    const std::vector<Span>& spans = state_.instance().items[static_cast<size_t>(i)].spans;
    return std::none_of(spans.begin(), spans.end(),
                        [&](const Span& span) { return span.first <= choice.section && choice.section <= span.last; });
  });
  std::stable_sort(candidates.begin(), candidates.end(), [&](int32_t a, int32_t b) {
    return preference_[static_cast<size_t>(a)] > preference_[static_cast<size_t>(b)];
  });

  Node& node = Push();
  node.part = part;
  node.section = choice.section;
  node.height = state_.floor(choice.section);
  node.candidates = std::move(candidates);
  node.mark = state_.mark();
  node.key = key;
  return Verdict::kFits;
}

// Takes back what was tried at this choice, and does the next thing. False when there is nothing more to try: then the
// part does not fit.
bool PlacementSearch::TryNext(Node& node) {
  if (node.section < 0) return false;
  for (;;) {
    state_.Undo(node.mark);
    items_.resize(node.items_mark);
    if (node.tried > node.candidates.size()) break;
    const size_t next = node.tried++;
    const bool leave_open = next == node.candidates.size();
    if (leave_open && state_.slack(node.section) <= 0) break;
    if (leave_open ? state_.LeaveOpen(node.section) : state_.Put(node.candidates[next], node.height)) {
      Cut(node.part, node);
      return true;
    }
    if (learn_) ++weight_[static_cast<size_t>(state_.culprit())];
  }
  failed_[node.key % failed_.size()] = node.key;
  return false;
}

// Goes depth first, by a path of its own: a graph of a thousand layers has more choices than a thread's stack has room
// for.
Verdict PlacementSearch::Search() {
  while (depth_ > 0) {
    Node& node = path_[depth_ - 1];
    if (node.solved == node.left.size()) {
      // All that its choice left fits.
      items_.resize(node.items_mark);
      --depth_;
      continue;
    }
    const Part part = node.left[node.solved++];
    const Verdict verdict = Enter(part);
    if (verdict == Verdict::kUndecided) return verdict;
    // Goes back up to the last choice that has something else to try.
    while (depth_ > 0 && !TryNext(path_[depth_ - 1])) --depth_;
    if (depth_ == 0) return Verdict::kDoesNotFit;
  }
  return Verdict::kFits;
}

}  // namespace snug::core::memory
