#include "engine/compile/control/unroll_loop.h"

#include <absl/strings/str_cat.h>

#include <utility>

#include "engine/base/status.h"
#include "engine/compile/control/body_copier.h"
#include "engine/compile/control/control_nodes.h"
#include "proto/internal.pb.h"

namespace snug::core {
namespace {

class LoopUnroller {
 public:
  LoopUnroller(GraphBuilder& builder, NodeId loop, const Graph& body, bool training)
      : nodes_(builder, loop),
        copier_(builder, body),
        options_(builder.graph().node(loop).options.Get<proto::LoopNode>()),
        guards_(training),
        feeds_(builder.graph().node(loop).inputs) {
    for (size_t o = 0; options_.has_index() && o < body.outputs.size(); ++o) {
      reads_index_ = reads_index_ || copier_.Depends(static_cast<int>(o), options_.index());
    }
    if (options_.has_condition()) {
      const ValueId condition = body.outputs[static_cast<size_t>(options_.condition())].value;
      guards_ = guards_ || body.type(condition).num_elements() > 1;
    }
    if (!options_.counted()) return;
    count_ = feeds_.back();
    feeds_.pop_back();
    guards_ = guards_ || nodes_.type(count_).num_elements() > 1;
  }

  absl::StatusOr<std::vector<ValueId>> Run() {
    for (const proto::LoopNode::Carry& carry : options_.carry()) {
      carried_.push_back(feeds_[static_cast<size_t>(carry.input())]);
      wanted_.push_back(carry.output());
    }
    first_ = carried_;
    for (const proto::LoopNode::Along& collect : options_.collect()) wanted_.push_back(collect.port());
    collected_.resize(static_cast<size_t>(options_.collect_size()));
    for (int k = 0; k < options_.scan_size(); ++k) {
      const proto::LoopNode::Along& scan = options_.scan(k);
      SNUG_ASSIGN_OR_RETURN(std::vector<ValueId> slices,
                            nodes_.Slices(feeds_[static_cast<size_t>(scan.port())], scan.axis(), scan.reverse(),
                                          absl::StrCat("scan", k)));
      slices_.push_back(std::move(slices));
    }
    for (int64_t round = 0; round < options_.rounds(); ++round) SNUG_RETURN_IF_ERROR(Round(round));
    for (int k = 0; k < options_.collect_size(); ++k) {
      SNUG_ASSIGN_OR_RETURN(const ValueId whole,
                            nodes_.Collect(std::move(collected_[static_cast<size_t>(k)]), options_.collect(k).axis(),
                                           options_.collect(k).reverse(), absl::StrCat("collect", k)));
      carried_.push_back(whole);
    }
    SNUG_RETURN_IF_ERROR(SpoilBeyondBound());
    return carried_;
  }

 private:
  bool ends_at_run_time() const { return count_.valid() || options_.has_condition(); }

  // What the body's inputs are in a round.
  absl::StatusOr<std::vector<ValueId>> Feeds(int64_t round) {
    std::vector<ValueId> feeds = feeds_;
    for (int k = 0; k < options_.carry_size(); ++k) {
      feeds[static_cast<size_t>(options_.carry(k).input())] = carried_[static_cast<size_t>(k)];
    }
    for (int k = 0; k < options_.scan_size() && round < options_.rounds(); ++k) {
      feeds[static_cast<size_t>(options_.scan(k).port())] = slices_[static_cast<size_t>(k)][static_cast<size_t>(round)];
    }
    if (reads_index_) {
      SNUG_ASSIGN_OR_RETURN(feeds[static_cast<size_t>(options_.index())], nodes_.RoundNumber(round));
    }
    return feeds;
  }

  // Says whether a round counts: the count is above its number, and the condition holds in it and in all before.
  absl::StatusOr<ValueId> Counts(int64_t round, const std::string& name, ValueId condition) {
    ValueId counts;
    if (count_.valid()) {
      SNUG_ASSIGN_OR_RETURN(counts, nodes_.IsAbove(count_, round, absl::StrCat(name, "/in_count")));
    }
    if (!condition.valid()) return counts;
    SNUG_ASSIGN_OR_RETURN(counts, nodes_.StillHolds(condition, counts, absl::StrCat(name, "/holds")));
    if (!counts_.valid()) return counts;
    return nodes_.StillHolds(counts, counts_, absl::StrCat(name, "/counts"));
  }

  // Keeps what flows back through a round that does not count from getting out of it.
  absl::Status Guard(int64_t round, const std::string& name, std::vector<ValueId>* feeds) {
    if (nodes_.type(counts_).num_elements() == 1) {
      for (size_t i = 0; i < feeds->size(); ++i) {
        ValueId& feed = (*feeds)[i];
        if (!feed.valid() || !IsFloating(nodes_.type(feed).dtype)) continue;
        SNUG_ASSIGN_OR_RETURN(feed, nodes_.Gate(feed, counts_, absl::StrCat(name, "/gate", i)));
      }
      return absl::OkStatus();
    }
    return GuardSamples(round, name, feeds);
  }

  // Samples that have stopped are computed beside those that have not, with the same weights, into whose gradients they
  // add up. So they do again what they did in the first round, which is finite if the loop is at all.
  absl::Status GuardSamples(int64_t round, const std::string& name, std::vector<ValueId>* feeds) {
    std::vector<ValueId> first(feeds->size());  // what carries and slices were in the first round
    for (int k = 0; round > 0 && k < options_.carry_size(); ++k) {
      first[static_cast<size_t>(options_.carry(k).input())] = first_[static_cast<size_t>(k)];
    }
    for (int k = 0; round > 0 && k < options_.scan_size(); ++k) {
      first[static_cast<size_t>(options_.scan(k).port())] = slices_[static_cast<size_t>(k)][0];
    }
    for (const int port : options_.per_sample()) {
      const auto at = static_cast<size_t>(port);
      ValueId& feed = (*feeds)[at];
      const ValueType& type = nodes_.type(feed);
      if (!IsFloating(type.dtype) || type.shape.rank() == 0) continue;
      if (type.shape[0] != nodes_.type(counts_).num_elements()) continue;
      if (!first[at].valid()) {
        SNUG_ASSIGN_OR_RETURN(feed, nodes_.Gate(feed, counts_, absl::StrCat(name, "/gate", port)));
        continue;
      }
      SNUG_ASSIGN_OR_RETURN(const ValueId stopped, nodes_.StopGradient(first[at], absl::StrCat(name, "/first", port)));
      SNUG_ASSIGN_OR_RETURN(feed, nodes_.Choose(counts_, feed, stopped, absl::StrCat(name, "/in", port)));
    }
    return absl::OkStatus();
  }

  absl::Status Round(int64_t round) {
    const std::string name = absl::StrCat(round);
    const std::string full_name = absl::StrCat(nodes_.name(), "/", round);
    SNUG_ASSIGN_OR_RETURN(std::vector<ValueId> feeds, Feeds(round));
    std::vector<ValueId> outputs;
    if (!ends_at_run_time()) {
      outputs = copier_.Copy(feeds, wanted_, full_name);
    } else {
      // Where rounds are guarded the condition is computed apart, by nodes through which nothing flows back: a round
      // that is guarded by its condition cannot compute it.
      std::vector<int> wanted = wanted_;
      ValueId condition;
      if (options_.has_condition() && guards_) {
        condition = copier_.Copy(feeds, {options_.condition()}, full_name, "/condition")[0];
      } else if (options_.has_condition()) {
        wanted.push_back(options_.condition());
        outputs = copier_.Copy(feeds, wanted, full_name);
        condition = outputs.back();
      }
      SNUG_ASSIGN_OR_RETURN(counts_, Counts(round, name, condition));
      if (guards_) SNUG_RETURN_IF_ERROR(Guard(round, name, &feeds));
      if (outputs.empty()) outputs = copier_.Copy(feeds, wanted_, full_name);
    }
    for (size_t k = 0; k < wanted_.size(); ++k) SNUG_RETURN_IF_ERROR(Take(k, name, outputs[k]));
    return absl::OkStatus();
  }

  // Takes what a round puts out: a carry, or what is collected.
  absl::Status Take(size_t k, const std::string& name, ValueId output) {
    const bool is_carry = k < first_.size();
    ValueId taken = output;
    if (ends_at_run_time() && is_carry) {
      SNUG_ASSIGN_OR_RETURN(taken, nodes_.Choose(counts_, output, carried_[k], absl::StrCat(name, "/carry", k)));
    } else if (ends_at_run_time()) {
      SNUG_ASSIGN_OR_RETURN(taken, nodes_.Keep(counts_, output, absl::StrCat(name, "/collect", k - first_.size())));
    }
    if (is_carry) {
      carried_[k] = taken;
    } else {
      collected_[k - first_.size()].push_back(taken);
    }
    return absl::OkStatus();
  }

  // Puts NaN into what comes out of a loop that would go on. A loop whose condition reads what is scanned ends with
  // that: there is nothing to go on with.
  absl::Status SpoilBeyondBound() {
    if (options_.stop_at_bound() || !ends_at_run_time()) return absl::OkStatus();
    // Values of an input may be known to stay below the bound.
    const int64_t end = count_.valid() ? nodes_.max_value(count_) : 0;
    if (end > 0 && end - 1 <= options_.rounds()) return absl::OkStatus();
    ValueId condition;
    if (options_.has_condition()) {
      for (const proto::LoopNode::Along& scan : options_.scan()) {
        if (copier_.Depends(options_.condition(), scan.port())) return absl::OkStatus();
      }
      SNUG_ASSIGN_OR_RETURN(const std::vector<ValueId> feeds, Feeds(options_.rounds()));
      condition = copier_.Copy(feeds, {options_.condition()}, absl::StrCat(nodes_.name(), "/bound"))[0];
    }
    SNUG_ASSIGN_OR_RETURN(const ValueId beyond, Counts(options_.rounds(), "bound", condition));
    for (size_t k = 0; k < carried_.size(); ++k) {
      SNUG_ASSIGN_OR_RETURN(carried_[k], nodes_.Spoil(beyond, carried_[k], absl::StrCat("bound/", k)));
    }
    return absl::OkStatus();
  }

  ControlNodes nodes_;
  BodyCopier copier_;
  const proto::LoopNode& options_;
  bool guards_;  // in training, and where samples stop by themselves: those that have are computed alike in both
  std::vector<ValueId> feeds_;  // of the body, as the node gives them: whole where they are scanned
  bool reads_index_ = false;
  ValueId count_;               // invalid: there is none
  ValueId counts_;              // the mask of the last round
  std::vector<int> wanted_;     // the body's outputs that are carries, then those that are collected
  std::vector<ValueId> first_;  // carries at first
  std::vector<ValueId> carried_;
  std::vector<std::vector<ValueId>> slices_;     // for each scan, in the sequence of rounds
  std::vector<std::vector<ValueId>> collected_;  // for each collect, of the rounds so far
};

}  // namespace

absl::StatusOr<std::vector<ValueId>> UnrollLoop(GraphBuilder& builder, NodeId loop, const Graph& body, bool training) {
  // The node's options are held here, as the graph's nodes move when others are added.
  const Options held = builder.graph().node(loop).options;
  return LoopUnroller(builder, loop, body, training).Run();
}

}  // namespace snug::core
