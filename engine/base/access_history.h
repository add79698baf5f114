// An AccessHistory says for each access that is added which earlier ones it must wait for, by the rule of conflict.h.
// It leaves out what a third access orders already where that costs nothing: a write waits for the reads since the last
// write, and for that write itself only if there were none.
//
// Who is a small copyable handle of what makes the accesses (a step's number, a task). A policy says which of them are
// done:
//
//   struct Policy {
//     bool Finished(Who who);  // need not be waited for any more; once true, true for ever
//     void Wait(Who who);      // the access being added has to wait for `who`; may be called twice for one
//   };
//
// Several accesses of one Who never wait for each other, so naming bytes twice, or as both read and written, is
// harmless. Memory is one piece per distinct range that an unfinished access left, amortised. Thread-compatible.
#pragma once

#include <cstddef>
#include <map>
#include <vector>

#include "engine/base/conflict.h"
#include "engine/base/interval_map.h"

namespace snug::core {

template <class Who>
class AccessHistory {
 public:
  template <class Policy>
  void Add(const Access& access, Who who, Policy&& policy) {
    const Region& r = access.region;
    if (r.begin >= r.end) return;
    if (r.arena == kTagArena) {  // a tag is one byte, found by its index
      const auto index = static_cast<size_t>(TagOf(r).index);
      if (index >= tags_.size()) tags_.resize(index + 1);
      Past& past = tags_[index];
      if (access.write) {
        past.Before(who, policy);
        past.Write(who);
      } else {
        past.Read(who, policy);
      }
      return;
    }
    Arena& arena = arenas_[r.arena];
    if (arena.pieces.size() >= arena.clean_at) Clean(arena, policy);
    if (access.write) {
      Past written;
      written.Write(who);
      arena.pieces.ForEach(r.begin, r.end, [&](const Past& past) { past.Before(who, policy); });
      arena.pieces.Assign(r.begin, r.end, std::move(written));
    } else {
      arena.pieces.UpdateEach(r.begin, r.end, [&](Past& past) { past.Read(who, policy); });
    }
  }

  // Counts the distinct ranges that are remembered, without tags.
  size_t pieces() const {
    size_t sum = 0;
    for (const auto& [id, arena] : arenas_) sum += arena.pieces.size();
    return sum;
  }

 private:
  // The history of one range: the last write and the reads since.
  struct Past {
    bool written = false;
    Who writer{};
    std::vector<Who> readers;

    template <class Policy>
    void Before(const Who& who, Policy& policy) const {
      if (readers.empty()) {
        if (written && !(writer == who)) policy.Wait(writer);
      }
      for (const Who& reader : readers) {
        if (!(reader == who)) policy.Wait(reader);
      }
    }
    void Write(const Who& who) {
      written = true;
      writer = who;
      readers.clear();
    }
    template <class Policy>
    void Read(const Who& who, Policy& policy) {
      if (written && !(writer == who)) policy.Wait(writer);
      if (readers.size() == readers.capacity()) {  // forgets finished readers before it grows, so that many reads
                                                   // without a write do not pile up
        std::erase_if(readers, [&](const Who& reader) { return policy.Finished(reader); });
        if (readers.size() * 2 > readers.capacity()) readers.reserve(readers.capacity() * 2);
      }
      readers.push_back(who);
    }
    template <class Policy>
    bool Over(Policy& policy) const {
      if (written && !policy.Finished(writer)) return false;
      for (const Who& reader : readers) {
        if (!policy.Finished(reader)) return false;
      }
      return true;
    }
  };
  struct Arena {
    IntervalMap<Past> pieces;
    size_t clean_at = 64;
  };

  template <class Policy>
  static void Clean(Arena& arena, Policy& policy) {
    arena.pieces.EraseIf([&](const Past& past) { return past.Over(policy); });
    arena.clean_at = 2 * arena.pieces.size() + 64;
  }

  std::vector<Past> tags_;
  std::map<int32_t, Arena> arenas_;
};

}  // namespace snug::core
