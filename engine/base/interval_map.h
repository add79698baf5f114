// Maps disjoint half-open ranges of int64_t to values; bytes in no range have none. Finding takes O(log n); changing
// takes that and one step for each piece in the range. Thread-compatible.
#pragma once

#include <cstdint>
#include <iterator>
#include <map>
#include <utility>

namespace snug::core {

template <class V>
class IntervalMap {
 public:
  // Calls visit(value) for each piece that overlaps [begin, end), from left to right.
  template <class Visit>
  void ForEach(int64_t begin, int64_t end, Visit&& visit) const {
    for (auto it = FirstOverlap(begin); it != pieces_.end() && it->first < end; ++it) visit(it->second.value);
  }

  // Calls update(value) for pieces that make up exactly [begin, end): existing pieces are cut at its ends, and holes
  // start as V().
  template <class Update>
  void UpdateEach(int64_t begin, int64_t end, Update&& update) {
    if (begin >= end) return;
    Cut(begin);
    Cut(end);
    int64_t at = begin;
    auto it = pieces_.lower_bound(begin);
    while (at < end) {
      if (it == pieces_.end() || it->first > at) {
        const int64_t hole_end = it == pieces_.end() || it->first > end ? end : it->first;
        it = pieces_.emplace_hint(it, at, Piece{hole_end, V()});
      }
      update(it->second.value);
      at = it->second.end;
      ++it;
    }
  }

  // Makes [begin, end) one piece with this value.
  void Assign(int64_t begin, int64_t end, V value) {
    if (begin >= end) return;
    auto it = pieces_.find(begin);
    if (it == pieces_.end() || it->second.end != end) {
      Erase(begin, end);
      it = pieces_.emplace(begin, Piece{end, V()}).first;
    }
    it->second.value = std::move(value);
  }

  void Erase(int64_t begin, int64_t end) {
    if (begin >= end) return;
    Cut(begin);
    Cut(end);
    pieces_.erase(pieces_.lower_bound(begin), pieces_.lower_bound(end));
  }

  template <class Predicate>
  void EraseIf(Predicate&& predicate) {
    std::erase_if(pieces_, [&](auto& piece) { return predicate(piece.second.value); });
  }

  bool empty() const { return pieces_.empty(); }
  size_t size() const { return pieces_.size(); }

 private:
  struct Piece {
    int64_t end;
    V value;
  };

  auto FirstOverlap(int64_t begin) const {
    auto it = pieces_.upper_bound(begin);
    if (it != pieces_.begin() && std::prev(it)->second.end > begin) --it;
    return it;
  }

  // Cuts the piece that reaches across `at`, if there is one.
  void Cut(int64_t at) {
    auto it = pieces_.lower_bound(at);
    if (it == pieces_.begin()) return;
    Piece& left = std::prev(it)->second;
    if (left.end <= at) return;
    pieces_.emplace_hint(it, at, Piece{left.end, left.value});
    left.end = at;
  }

  std::map<int64_t, Piece> pieces_;  // keyed by begin
};

}  // namespace snug::core
