// NNC's allocation graph: bytes flow from a source (a fresh region) through the buffers that use them, one after the
// other, to a sink. An edge y -> x of some bytes says that they are free from when y is done until x begins, so a
// string of buffers, each done before the next begins, can be put into it if y is done before the first of them begins
// and the last is done before x begins. What the string leaves of the edge stays one.
#pragma once

#include <cstdint>
#include <vector>

#include "memory/share/use_order.h"

namespace snug::memory {

class AllocationGraph {
 public:
  // `sizes`: of each buffer, in units such that all offsets come out aligned. Both must outlive this.
  AllocationGraph(const UseOrder& uses, const std::vector<int64_t>& sizes);

  // The edges of at least so many bytes, the newest first.
  std::vector<int32_t> EdgesOf(int64_t bytes) const;
  // Which of them can take the string: the one between the nearest ends; of equal ones the first. -1: none. Only those
  // made after the first `refused` ones are looked at: an edge that cannot take a string never will.
  int32_t FindEdge(const std::vector<int32_t>& string, const std::vector<int32_t>& edges, int64_t refused = 0) const;
  // How many edges were ever made.
  int64_t made() const { return made_; }

  // Puts the string, the largest of which has `bytes`, into the edge, or, with -1, into a region of its own. Edges that
  // were found before are no longer valid.
  void Insert(const std::vector<int32_t>& string, int64_t bytes, int32_t edge);

  // The regions lie side by side.
  const std::vector<int64_t>& offsets() const { return offsets_; }
  int64_t total() const { return total_; }

 private:
  static constexpr int32_t kSource = -1;
  static constexpr int32_t kSink = -2;
  struct FlowEdge {
    int32_t from, to;
    int64_t bytes;
    int64_t offset;      // in the arena: regions never grow
    int64_t number = 0;  // in the sequence in which edges were made
  };
  void Add(FlowEdge edge) {
    edge.number = made_++;
    edges_.push_back(edge);
  }

  const UseOrder& uses_;
  const std::vector<int64_t>& sizes_;
  std::vector<FlowEdge> edges_;
  int64_t made_ = 0;
  size_t spent_ = 0;  // edges of no bytes
  std::vector<int64_t> offsets_;
  int64_t total_ = 0;
};

}  // namespace snug::memory
