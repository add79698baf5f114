#include "engine/compile/control/run_time_end.h"

#include <absl/algorithm/container.h>
#include <absl/strings/str_cat.h>

#include <memory>
#include <string>
#include <utility>

#include "engine/base/status.h"
#include "engine/compile/control/body_copier.h"
#include "engine/compile/control/control_nodes.h"
#include "proto/internal.pb.h"
#include "proto/loops.pb.h"

namespace snug::core {
namespace {

class EndMover {
 public:
  EndMover(GraphBuilder& builder, NodeId loop, const Graph& body, bool training, const proto::LoopNode& end,
           proto::NormalLoop& options)
      : outer_(builder),
        loop_(loop),
        body_(body),
        training_(training),
        end_(end),
        options_(options),
        feeds_(builder.graph().node(loop).inputs),
        around_(builder, loop),
        inner_(builder.registry(), &wrapped_),
        nodes_(inner_, "", builder.graph().node(loop).loc, Phase::kForward),
        copier_(inner_, body) {}

  absl::StatusOr<std::vector<ValueId>> Run() {
    outer_.graph().SetInsertionPoint(loop_);
    SNUG_RETURN_IF_ERROR(AddInputs());
    SNUG_RETURN_IF_ERROR(AddRound());
    Node& node = outer_.graph().node(loop_);
    node.subgraphs = {std::make_shared<const Graph>(std::move(wrapped_))};
    node.inputs = feeds_;
    outer_.graph().SetInsertionPoint(node.next);
    return SpoilBeyondBound();
  }

 private:
  const ValueType& condition_type() const {
    return body_.type(body_.outputs[static_cast<size_t>(end_.condition())].value);
  }
  Shape MaskShape() const { return end_.has_condition() ? condition_type().shape : outer_.graph().type(count_).shape; }

  // Adds an input to the body; `feed` is the node's, if any.
  ValueId AddInput(std::string name, ValueType type, ValueId feed, int64_t max_value = 0) {
    while (wrapped_.FindValue(name).valid()) name += "'";
    feeds_.push_back(feed);
    return wrapped_.AddInput(std::move(name), std::move(type), max_value);
  }

  absl::Status AddInputs() {
    if (end_.counted()) {
      count_ = feeds_.back();
      feeds_.pop_back();
    }
    // Samples that stop by themselves are computed alike with and without training.
    guards_ = training_ || MaskShape().num_elements() > 1;
    wrapped_.name = body_.name;
    for (const ValueId input : body_.inputs()) {
      const Value& value = body_.value(input);
      ports_.push_back(wrapped_.AddInput(value.name, value.type, value.max_value));
    }
    if (end_.counted()) {
      const Value count = outer_.graph().value(count_);
      count_in_body_ = AddInput("count", count.type, count_, count.max_value);
      if (!options_.has_index()) {
        options_.set_index(static_cast<int32_t>(wrapped_.inputs().size()));
        ports_.resize(wrapped_.inputs().size());
        ports_.push_back(AddInput("round", {DType::kInt32, Shape(), {}}, ValueId(), options_.rounds() + 1));
      }
    }
    if (end_.has_condition()) {
      SNUG_ASSIGN_OR_RETURN(const ValueId all, around_.Fill(DType::kUint8, MaskShape(), 1, "all"));
      proto::NormalLoop::Carry& carry = *options_.add_carry();
      carry.set_input(static_cast<int32_t>(wrapped_.inputs().size()));
      counted_before_ = AddInput("counts/before", {DType::kUint8, MaskShape(), {}}, all);
    }
    return guards_ && MaskShape().num_elements() > 1 ? AddFirstRound() : absl::OkStatus();
  }

  // Tells whether what the port feeds has a row for each of the samples that stop by themselves.
  bool HasRows(int port) const {
    const ValueType& type = wrapped_.type(ports_[static_cast<size_t>(port)]);
    return IsFloating(type.dtype) && type.shape.rank() > 0 && type.shape[0] == MaskShape().num_elements();
  }

  // What carries and slices are in the first round, for samples that have stopped. Those that have no round at all get
  // zeros as slices: theirs may be anything.
  absl::Status AddFirstRound() {
    first_.resize(ports_.size());
    ValueId has_rounds;
    if (count_.valid()) {
      SNUG_ASSIGN_OR_RETURN(has_rounds, around_.IsAbove(count_, 0, "has_rounds"));
    }
    const auto add = [&](int port, ValueId feed) {
      const Value& like = wrapped_.value(ports_[static_cast<size_t>(port)]);
      first_[static_cast<size_t>(port)] = AddInput(absl::StrCat(like.name, "/first"), like.type, feed);
    };
    for (const int port : end_.per_sample()) {
      if (!HasRows(port)) continue;
      for (const proto::NormalLoop::Carry& carry : options_.carry()) {
        if (carry.input() == port) add(port, feeds_[static_cast<size_t>(port)]);
      }
      for (int k = 0; k < options_.scan_size(); ++k) {
        const proto::NormalLoop::Along& scan = options_.scan(k);
        if (scan.port() != port) continue;
        SNUG_ASSIGN_OR_RETURN(ValueId slice, around_.Slice(feeds_[static_cast<size_t>(port)], scan.axis(),
                                                           scan.reverse() ? options_.rounds() - 1 : 0,
                                                           absl::StrCat("scan", k, "/first")));
        if (has_rounds.valid()) {
          SNUG_ASSIGN_OR_RETURN(slice, around_.Keep(has_rounds, slice, absl::StrCat("scan", k, "/first_kept")));
        }
        add(port, slice);
      }
    }
    return absl::OkStatus();
  }

  // Says whether a round counts: the count is above its number, and the condition holds in it and in all before.
  absl::StatusOr<ValueId> Counts(ControlNodes& nodes, ValueId in_count, ValueId condition, ValueId before) {
    if (!condition.valid()) return in_count;
    SNUG_ASSIGN_OR_RETURN(const ValueId holds, nodes.StillHolds(condition, in_count, "holds"));
    return nodes.StillHolds(holds, before, "counts");
  }

  // Keeps what flows back through a round that does not count from getting out of it.
  absl::Status Guard(ValueId counts, std::vector<ValueId>* feeds) {
    const bool by_sample = MaskShape().num_elements() > 1;
    for (size_t i = 0; !by_sample && i < feeds->size(); ++i) {
      ValueId& feed = (*feeds)[i];
      if (!feed.valid() || !IsFloating(nodes_.type(feed).dtype)) continue;
      SNUG_ASSIGN_OR_RETURN(feed, nodes_.Gate(feed, counts, absl::StrCat("gate", i)));
    }
    if (!by_sample) return absl::OkStatus();
    // Samples that have stopped are computed beside those that have not, with the same weights, into whose gradients
    // they add up. So they do again what they did in the first round, which is finite if the loop is at all.
    for (const int port : end_.per_sample()) {
      if (!HasRows(port)) continue;
      ValueId& feed = (*feeds)[static_cast<size_t>(port)];
      const ValueId first = first_[static_cast<size_t>(port)];
      if (!first.valid()) {
        SNUG_ASSIGN_OR_RETURN(feed, nodes_.Gate(feed, counts, absl::StrCat("gate", port)));
        continue;
      }
      SNUG_ASSIGN_OR_RETURN(const ValueId stopped, nodes_.StopGradient(first, absl::StrCat("first", port)));
      SNUG_ASSIGN_OR_RETURN(feed, nodes_.Choose(counts, feed, stopped, absl::StrCat("in", port)));
    }
    return absl::OkStatus();
  }

  int PutOut(const std::string& name, ValueId value) {
    wrapped_.outputs.push_back({name, value});
    return static_cast<int>(wrapped_.outputs.size()) - 1;
  }

  absl::Status AddRound() {
    const int carries = options_.carry_size() - (end_.has_condition() ? 1 : 0);  // those of the body as it was
    std::vector<int> wanted;
    for (int k = 0; k < carries; ++k) wanted.push_back(options_.carry(k).output());
    for (const proto::NormalLoop::Along& collect : options_.collect()) wanted.push_back(collect.port());
    std::vector<ValueId> feeds(ports_.begin(), ports_.begin() + static_cast<int64_t>(body_.inputs().size()));
    std::vector<ValueId> outputs;
    ValueId condition, in_count;
    // Where rounds are guarded the condition is computed apart, by nodes through which nothing flows back: a round that
    // is guarded by its condition cannot compute it.
    if (end_.has_condition() && guards_) {
      condition = copier_.Copy(feeds, {end_.condition()}, "condition")[0];
    } else if (end_.has_condition()) {
      std::vector<int> with_condition = wanted;
      with_condition.push_back(end_.condition());
      outputs = copier_.Copy(feeds, with_condition, "");
      condition = outputs.back();
    }
    if (count_in_body_.valid()) {
      SNUG_ASSIGN_OR_RETURN(in_count,
                            nodes_.InCount(count_in_body_, ports_[static_cast<size_t>(options_.index())], "in_count"));
    }
    SNUG_ASSIGN_OR_RETURN(const ValueId counts, Counts(nodes_, in_count, condition, counted_before_));
    if (guards_) SNUG_RETURN_IF_ERROR(Guard(counts, &feeds));
    if (outputs.empty()) outputs = copier_.Copy(feeds, wanted, "");
    for (int k = 0; k < carries; ++k) {
      proto::NormalLoop::Carry& carry = *options_.mutable_carry(k);
      SNUG_ASSIGN_OR_RETURN(const ValueId taken,
                            nodes_.Choose(counts, outputs[static_cast<size_t>(k)],
                                          ports_[static_cast<size_t>(carry.input())], absl::StrCat("carry", k)));
      carry.set_output(PutOut(absl::StrCat("carry", k), taken));
    }
    for (int k = 0; k < options_.collect_size(); ++k) {
      SNUG_ASSIGN_OR_RETURN(const ValueId kept,
                            nodes_.Keep(counts, outputs[static_cast<size_t>(carries + k)], absl::StrCat("collect", k)));
      options_.mutable_collect(k)->set_port(PutOut(absl::StrCat("collect", k), kept));
    }
    const int mask = PutOut("counts", counts);
    if (end_.has_condition()) options_.mutable_carry(carries)->set_output(mask);
    if (MayEndEarly()) options_.set_goes_on(mask);
    return absl::OkStatus();
  }

  // Rounds in which no sample counts add zeros to all gradients, of either sign to those of slices that are no samples'
  // rows. There the loop runs all its rounds, as its straight line does.
  bool MayEndEarly() const {
    if (!training_ || MaskShape().num_elements() == 1) return true;
    return absl::c_all_of(options_.scan(), [&](const proto::NormalLoop::Along& scan) {
      const bool floating = IsFloating(wrapped_.type(ports_[static_cast<size_t>(scan.port())]).dtype);
      return !floating || (absl::c_linear_search(end_.per_sample(), scan.port()) && HasRows(scan.port()));
    });
  }

  // Puts NaN into what comes out of a loop that would go on. A loop whose condition reads what is scanned ends with
  // that: there is nothing to go on with.
  absl::StatusOr<std::vector<ValueId>> SpoilBeyondBound() {
    std::vector<ValueId> outputs = outer_.graph().node(loop_).outputs;
    if (end_.stop_at_bound()) return outputs;
    // Values of an input may be known to stay below the bound.
    const int64_t most = count_.valid() ? around_.max_value(count_) : 0;
    if (most > 0 && most - 1 <= options_.rounds()) return outputs;
    const std::string name = absl::StrCat(around_.name(), "/bound");
    ControlNodes nodes(outer_, name, outer_.graph().node(loop_).loc, Phase::kForward);
    ValueId condition, in_count, before;
    if (end_.has_condition()) {
      for (const proto::NormalLoop::Along& scan : options_.scan()) {
        if (copier_.Depends(end_.condition(), scan.port())) return outputs;
      }
      proto::NormalLoop::Carry& mask = *options_.mutable_carry(options_.carry_size() - 1);
      mask.set_result(static_cast<int32_t>(outputs.size()));
      before =
          AddOutput(outer_.graph(), loop_, absl::StrCat(around_.name(), "/counts"), {DType::kUint8, MaskShape(), {}});
      std::vector<ValueId> feeds(feeds_.begin(), feeds_.begin() + static_cast<int64_t>(body_.inputs().size()));
      for (int k = 0; k + 1 < options_.carry_size(); ++k) {
        feeds[static_cast<size_t>(options_.carry(k).input())] =
            outputs[static_cast<size_t>(options_.carry(k).result())];
      }
      if (options_.has_index() && static_cast<size_t>(options_.index()) < feeds.size()) {
        SNUG_ASSIGN_OR_RETURN(feeds[static_cast<size_t>(options_.index())], nodes.RoundNumber(options_.rounds()));
      }
      condition = BodyCopier(outer_, body_).Copy(feeds, {end_.condition()}, name)[0];
    }
    if (count_.valid()) {
      SNUG_ASSIGN_OR_RETURN(in_count, nodes.IsAbove(count_, options_.rounds(), "in_count"));
    }
    SNUG_ASSIGN_OR_RETURN(const ValueId beyond, Counts(nodes, in_count, condition, before));
    for (size_t k = 0; k < outputs.size(); ++k) {
      SNUG_ASSIGN_OR_RETURN(outputs[k], nodes.Spoil(beyond, outputs[k], absl::StrCat(k)));
    }
    return outputs;
  }

  GraphBuilder& outer_;
  const NodeId loop_;
  const Graph& body_;
  const bool training_;
  const proto::LoopNode& end_;
  proto::NormalLoop& options_;
  std::vector<ValueId> feeds_;  // of the body, as the node gives them
  ControlNodes around_;
  Graph wrapped_;  // the new body
  GraphBuilder inner_;
  ControlNodes nodes_;  // for the new body
  BodyCopier copier_;
  bool guards_ = false;
  std::vector<ValueId> ports_;  // the new body's inputs that the body as it was had, and that for the index
  std::vector<ValueId> first_;  // by port; invalid: there is none
  ValueId count_;               // invalid: there is none
  ValueId count_in_body_, counted_before_;
};

}  // namespace

absl::StatusOr<std::vector<ValueId>> MoveEndIntoBody(GraphBuilder& builder, NodeId loop, const Graph& body,
                                                     bool training, const proto::LoopNode& end,
                                                     proto::NormalLoop& options) {
  return EndMover(builder, loop, body, training, end, options).Run();
}

}  // namespace snug::core
