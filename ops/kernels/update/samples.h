// Samples of the update ops that ops/optim/update_op.h makes. The ports of all of them follow from how many slots they
// have and whether they count steps, so an op says only which options and numbers are worth trying.
#pragma once

#include <absl/strings/string_view.h>

#include <optional>
#include <vector>

#include "engine/base/shape.h"
#include "ops/sample_builder.h"

namespace snug::core {

class UpdateSamples {
 public:
  // F is the function of the update (ops/optim/update_functions.h).
  template <template <class> class F>
  static UpdateSamples Of(SampleBuilder& s) {
    return UpdateSamples(s, F<float>::kSlots, F<float>::kSquares, F<float>::kCounts);
  }

  // Any numbers. The options are the text of a proto::Update; `done` steps came before this one.
  void Any(absl::string_view name, const char* options, const Shape& shape, int done = 9) const;
  void GateClosed(const char* options) const;
  // The parameter and its slots are kept in the run's floating type, which may be a narrow one.
  void Kept(absl::string_view name, const char* options, const Shape& shape = {3, 1031}) const;
  // Each of the slots, which are called so, has another shape than the parameter: the node fails.
  void OtherSlots(const std::vector<absl::string_view>& names) const;
  // The random state, which counts the steps, has another type: the node fails.
  void OtherState() const;

  // A step that is known from elsewhere, of the parameter {1, -2}; nine came before it.
  struct Known {
    double rate = 0;
    std::vector<double> grad;
    std::vector<std::vector<double>> slots;
    std::vector<double> param_after;
    std::vector<std::vector<double>> slots_after;
  };
  void Expect(absl::string_view name, const char* options, const Known& known) const;

 private:
  UpdateSamples(SampleBuilder& s, int slots, unsigned squares, bool counts)
      : s_(s), slots_(slots), squares_(squares), counts_(counts) {}

  Sample& Case(absl::string_view name, const char* options) const;
  // Adds a slot with numbers that it may hold: no squares are negative.
  void AddSlot(Sample& sample, int slot, const Shape& shape) const;
  // Adds the number of steps done, where they are counted, and the gate. Without a number it is any.
  void AddStateAndGate(Sample& sample, std::optional<int> done, bool open = true) const;

  SampleBuilder& s_;
  int slots_;
  unsigned squares_;  // a bit for each slot: whether it holds squares
  bool counts_;
};

}  // namespace snug::core
