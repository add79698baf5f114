#include "memory/share/allocation_graph.h"

#include <algorithm>
#include <limits>

namespace snug::core::memory {

AllocationGraph::AllocationGraph(const UseOrder& uses, const std::vector<int64_t>& sizes)
    : uses_(uses), sizes_(sizes), offsets_(sizes.size(), 0) {}

std::vector<int32_t> AllocationGraph::EdgesOf(int64_t bytes) const {
  std::vector<int32_t> edges;
  for (size_t e = edges_.size(); e-- > 0;) {
    if (edges_[e].bytes >= bytes) edges.push_back(static_cast<int32_t>(e));
  }
  return edges;
}

int32_t AllocationGraph::FindEdge(const std::vector<int32_t>& string, const std::vector<int32_t>& edges,
                                  int64_t refused) const {
  const auto first = static_cast<size_t>(string.front());
  const auto last = static_cast<size_t>(string.back());
  int32_t found = -1;
  int64_t found_hops = std::numeric_limits<int64_t>::max();
  for (const int32_t e : edges) {
    const FlowEdge& edge = edges_[static_cast<size_t>(e)];
    if (edge.number < refused) break;  // all edges that follow are older still
    // No edge runs from the source to the sink, so at least one end tells the kind of the region.
    const auto from = static_cast<size_t>(edge.from);
    const auto to = static_cast<size_t>(edge.to);
    const bool from_source = edge.from == kSource;
    const bool to_sink = edge.to == kSink;
    const int64_t hops =
        (from_source ? uses_.longest() : uses_.Hops(from, first)) + (to_sink ? uses_.longest() : uses_.Hops(last, to));
    if (hops >= found_hops || !uses_.SameKind(from_source ? to : from, first)) continue;
    if (!from_source && !uses_.Before(from, first)) continue;
    if (!to_sink && !uses_.Before(last, to)) continue;
    found = e;
    found_hops = hops;
  }
  return found;
}

void AllocationGraph::Insert(const std::vector<int32_t>& string, int64_t bytes, int32_t edge) {
  FlowEdge taken{kSource, kSink, bytes, total_};
  if (edge < 0) {
    total_ += bytes;
  } else {
    FlowEdge& rest = edges_[static_cast<size_t>(edge)];
    taken = rest;
    rest.bytes -= bytes;
    rest.offset += bytes;
    spent_ += rest.bytes == 0;
  }
  const auto size = [&](size_t i) { return sizes_[static_cast<size_t>(string[i])]; };
  // Each buffer of the string lies at the edge's start. It takes over what it can from the buffers before it; its other
  // bytes come from where the edge came from.
  int64_t come = 0;
  for (size_t i = 0; i < string.size(); ++i) {
    offsets_[static_cast<size_t>(string[i])] = taken.offset;
    if (size(i) <= come) continue;
    Add({taken.from, string[i], size(i) - come, taken.offset + come});
    come = size(i);
  }
  for (size_t i = 0; i < string.size(); ++i) {
    int64_t gone = 0;
    for (size_t later = i + 1; later < string.size() && gone < size(i); ++later) {
      const int64_t taken_over = std::min(size(i), size(later));
      if (taken_over <= gone) continue;
      Add({string[i], string[later], taken_over - gone, taken.offset + gone});
      gone = taken_over;
    }
    if (size(i) > gone) Add({string[i], taken.to, size(i) - gone, taken.offset + gone});
  }
  if (2 * spent_ < edges_.size()) return;
  edges_.erase(std::remove_if(edges_.begin(), edges_.end(), [](const FlowEdge& e) { return e.bytes == 0; }),
               edges_.end());
  spent_ = 0;
}

}  // namespace snug::core::memory
