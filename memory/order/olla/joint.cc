#include <absl/strings/str_cat.h>

#include <algorithm>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engine/base/status.h"
#include "memory/ilp/scale.h"
#include "memory/ilp/solver.h"
#include "memory/order/olla/programs.h"
#include "memory/order/olla/schedule.h"
#include "memory/place/olla_addresses.h"
#include "memory/place/olla_pack.h"

namespace snug::core::memory {
namespace {

constexpr int64_t kMostRows = 400'000;

// Says why the program of this graph is not built; empty when it is.
std::string LeftOut(const OllaGraph& graph, const OllaOptions& olla) {
  const int64_t binaries = OllaBinaries(graph, olla.spans);
  const int64_t cells = static_cast<int64_t>(graph.tasks().values.size()) * graph.size();
  if (binaries > kMostOllaBinaries) {
    return absl::StrCat(binaries, " binaries, more than the solver is given (", kMostOllaBinaries, ")");
  }
  if (cells > kMostRows) {
    return absl::StrCat(cells, " pairs of a value and a position, more than the solver is given (", kMostRows, ")");
  }
  return "";
}

// The values that the program places: those with bytes that come and go. Resident values lie at the bottom, where no
// other value could use the bytes between them.
struct Movable {
  std::vector<size_t> values;
  std::vector<int64_t> size, spacing;  // spacing: as in PlaceOlla, rounded up where all have one alignment
  int64_t base = 0;                    // what the resident values take
};

Movable MovableOf(const Tasks& tasks) {
  Movable movable;
  bool uniform = true;
  int64_t alignment = 0;
  for (const TaskValue& value : tasks.values) {
    if (value.size_bytes == 0) continue;
    uniform = uniform && (alignment == 0 || alignment == value.alignment);
    alignment = value.alignment;
  }
  for (size_t v = 0; v < tasks.values.size(); ++v) {
    const TaskValue& value = tasks.values[v];
    if (value.size_bytes == 0) continue;
    const int64_t spacing = uniform ? AlignUp(value.size_bytes, alignment) : value.size_bytes;
    if (value.resident) {
      movable.base += spacing;
      continue;
    }
    movable.values.push_back(v);
    movable.size.push_back(value.size_bytes);
    movable.spacing.push_back(spacing);
  }
  return movable;
}

class JointProgram {
 public:
  JointProgram(const OllaGraph& graph, const OllaOptions& olla, int64_t arena, int64_t lower_bound)
      : graph_(graph), movable_(MovableOf(graph.tasks())), scale_(Lengths()) {
    const double top = scale_.FromBytes(std::max<int64_t>(0, arena - movable_.base));
    arena_ = model_.AddVariable(scale_.FromBytes(std::max<int64_t>(0, lower_bound - movable_.base)), top, false, 1);
    schedule_.emplace(graph, olla.spans, &model_);
    addresses_.emplace(top, arena_, &model_);
    for (size_t i = 0; i < movable_.values.size(); ++i) {
      addresses_->Add(scale_.FromBytes(movable_.size[i]), scale_.FromBytes(movable_.spacing[i]));
    }
    AddLoads();
    for (size_t b = 0; b < movable_.values.size(); ++b) {
      for (size_t a = 0; a < b && Fits(); ++a) AddPair(a, b, olla.precedence);
    }
  }

  bool Fits() const { return model_.constraints() < kMostRows; }
  const IlpModel& model() const { return model_; }
  const IlpScale& scale() const { return scale_; }
  int64_t ArenaBytes(double arena) const { return movable_.base + scale_.ToBytes(arena); }
  int64_t BoundBytes(double bound) const { return movable_.base + scale_.BoundToBytes(bound); }

  // Returns nothing where a part of the plan lies below what is resident.
  std::vector<double> Encode(const JointPlan& plan) const {
    std::vector<double> values(static_cast<size_t>(model_.variables()), 0);
    schedule_->Encode(plan.order, &values);
    std::vector<double> offsets;
    for (const size_t value : movable_.values) {
      if (plan.plan.offsets[value] < movable_.base) return {};
      offsets.push_back(scale_.FromBytes(plan.plan.offsets[value] - movable_.base));
    }
    addresses_->Encode(offsets, &values);
    values[static_cast<size_t>(arena_)] = scale_.FromBytes(plan.plan.arena_bytes - movable_.base);
    return values;
  }

  JointPlan Decode(absl::Span<const double> values) const {
    JointPlan decoded{.order = schedule_->Decode(values)};
    std::vector<double> address(graph_.tasks().values.size(), -1);  // resident values are below all others
    for (size_t i = 0; i < movable_.values.size(); ++i) {
      address[movable_.values[i]] = addresses_->Address(static_cast<int32_t>(i), values);
    }
    std::vector<int32_t> upwards(address.size());
    std::iota(upwards.begin(), upwards.end(), 0);
    std::stable_sort(upwards.begin(), upwards.end(), [&](int32_t a, int32_t b) {
      return address[static_cast<size_t>(a)] < address[static_cast<size_t>(b)];
    });
    decoded.plan = PackUpwards(LifetimesOf(graph_.tasks(), decoded.order), upwards);
    return decoded;
  }

 private:
  std::vector<int64_t> Lengths() const {
    std::vector<int64_t> lengths = movable_.size;
    lengths.insert(lengths.end(), movable_.spacing.begin(), movable_.spacing.end());
    return lengths;
  }

  // (13): the arena holds all that is live. This follows from the offsets only when they are whole, so it tightens the
  // program for fractions.
  void AddLoads() {
    for (int32_t position = 0; position < graph_.size(); ++position) {
      Affine live;
      for (size_t i = 0; i < movable_.values.size(); ++i) {
        live.Add(schedule_->Live(movable_.values[i], position), scale_.FromBytes(movable_.size[i]));
      }
      live.terms.push_back({arena_, -1});
      model_.AddConstraint(live.terms, -IlpModel::kInfinity, -live.constant);
    }
  }

  // (6): keeps the two apart if they are live together at some position.
  void AddPair(size_t a, size_t b, bool precedence) {
    const size_t one = movable_.values[a];
    const size_t other = movable_.values[b];
    if (precedence && (graph_.DiesBefore(one, other) || graph_.DiesBefore(other, one))) return;
    bool certain = precedence && graph_.Together(one, other);
    std::vector<Affine> together;
    for (int32_t position = 0; position < graph_.size() && !certain; ++position) {
      Affine both = schedule_->Live(one, position);
      both.Add(schedule_->Live(other, position), 1);
      certain = both.IsConstant() && both.constant >= 2;
      // Where one of them is certainly not live, the sum is at most 1.
      const bool possible = !IsZero(schedule_->Live(one, position)) && !IsZero(schedule_->Live(other, position));
      if (possible) together.push_back(std::move(both));
    }
    if (certain) {
      addresses_->KeepApart(static_cast<int32_t>(a), static_cast<int32_t>(b));
      return;
    }
    if (together.empty()) return;
    const std::vector<LinearTerm> apart = addresses_->MayKeepApart(static_cast<int32_t>(a), static_cast<int32_t>(b));
    for (Affine& both : together) {
      for (const LinearTerm& term : apart) both.terms.push_back({term.variable, -term.factor});
      model_.AddConstraint(both.terms, -IlpModel::kInfinity, 1 - both.constant);
    }
  }

  static bool IsZero(const Affine& affine) { return affine.IsConstant() && affine.constant == 0; }

  const OllaGraph& graph_;
  Movable movable_;
  IlpScale scale_;
  IlpModel model_;
  int32_t arena_;
  std::optional<OllaSchedule> schedule_;
  std::optional<OllaAddresses> addresses_;
};

}  // namespace

absl::StatusOr<JointResult> SolveJoint(const OllaGraph& graph, const JointGoal& goal, const OllaOptions& olla,
                                       const std::function<void(const JointPlan& plan)>& found,
                                       const std::function<void(int64_t bound)>& tighten) {
  if (std::string reason = LeftOut(graph, olla); !reason.empty()) return JointResult{.left_out = std::move(reason)};
  const JointProgram program(graph, olla, goal.most, goal.enough);
  if (!program.Fits()) {
    return JointResult{.left_out = absl::StrCat("more constraints than the solver is given (", kMostRows, ")")};
  }
  IlpOptions options{.work = goal.work, .step = program.scale().step()};
  if (olla.warm_start && !goal.start.order.empty() && goal.start.plan.arena_bytes <= goal.most) {
    options.start = program.Encode(goal.start);
  }
  const auto found_in = [&](absl::Span<const double> values) {
    if (!values.empty()) found(program.Decode(values));
  };
  options.on_progress = [&](const IlpProgress& progress) {
    found_in(progress.values);
    tighten(program.BoundBytes(progress.bound));
  };
  SNUG_ASSIGN_OR_RETURN(const IlpResult result, SolveIlp(program.model(), options));
  found_in(result.values);
  if (result.status != IlpStatus::kInfeasible) tighten(program.BoundBytes(result.bound));
  return JointResult{.solved = result.status != IlpStatus::kStopped, .work = result.work};
}

}  // namespace snug::core::memory
