// NNC's allocation graph: bytes flow from a source (a fresh region) through the buffers that use them, one after the
// other, to a sink. An edge y -> x says that some bytes are free from when y is done until x begins. So a string of
// buffers, each done before the next begins, can be put into the edge if y is done before the first of them begins and
// the last is done before x begins. What the string does not use of the edge stays an edge.
#pragma once

#include <cstdint>
#include <vector>

#include "memory/share/use_order.h"

namespace snug::core::memory {

class AllocationGraph {
 public:
  // `sizes` has the size of each buffer, in units such that all offsets come out aligned. Both arguments must outlive
  // this.
  AllocationGraph(const UseOrder& uses, const std::vector<int64_t>& sizes);

  // Returns the edges of at least so many bytes, the newest first.
  std::vector<int32_t> EdgesOf(int64_t bytes) const;
  // Returns the edge that can take the string and has the nearest ends (ties: the first), or -1. It only looks at edges
  // made after the first `refused` ones: an edge that cannot take a string never will.
  int32_t FindEdge(const std::vector<int32_t>& string, const std::vector<int32_t>& edges, int64_t refused = 0) const;
  // Returns how many edges were ever made.
  int64_t made() const { return made_; }

  // Puts the string, whose largest buffer has `bytes`, into the edge or, with -1, into a region of its own. Edges that
  // were found before are no longer valid.
  void Insert(const std::vector<int32_t>& string, int64_t bytes, int32_t edge);

  // Regions lie side by side in the arena.
  const std::vector<int64_t>& offsets() const { return offsets_; }
  int64_t total() const { return total_; }

 private:
  static constexpr int32_t kSource = -1;
  static constexpr int32_t kSink = -2;
  struct FlowEdge {
    int32_t from, to;
    int64_t bytes;
    int64_t offset;      // in the arena; it is final because regions never grow
    int64_t number = 0;  // counts edges as they are made
  };
  void Add(FlowEdge edge) {
    edge.number = made_++;
    edges_.push_back(edge);
  }

  const UseOrder& uses_;
  const std::vector<int64_t>& sizes_;
  std::vector<FlowEdge> edges_;
  int64_t made_ = 0;
  size_t spent_ = 0;  // counts the edges of no bytes
  std::vector<int64_t> offsets_;
  int64_t total_ = 0;
};

}  // namespace snug::core::memory
