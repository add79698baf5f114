#include "ops/kernels/update/samples.h"

#include <absl/strings/str_cat.h>

#include "engine/base/status.h"
#include "proto/internal.pb.h"
#include "proto/options.h"

namespace snug::core {

void UpdateSamples::Any(absl::string_view name, const char* options, const Shape& shape, int done) const {
  Sample& sample = Case(name, options).Input(shape);
  for (int slot = 0; slot < slots_; ++slot) AddSlot(sample, slot, shape);
  sample.Input(shape).Input({}).Range(0.01, 0.1);
  AddStateAndGate(sample, done);
}

void UpdateSamples::GateClosed(const char* options) const {
  Sample& sample = Case("gate_closed", options).Input({9});
  for (int slot = 0; slot < slots_; ++slot) AddSlot(sample, slot, {9});
  sample.Input({9}).Input({}).Range(0.001, 0.01);
  AddStateAndGate(sample, /*done=*/3, /*open=*/false);
}

void UpdateSamples::Kept(absl::string_view name, const char* options, const Shape& shape) const {
  Sample& sample = Case(name, options).Input(shape).Narrow();
  for (int slot = 0; slot < slots_; ++slot) {
    AddSlot(sample, slot, shape);
    sample.Narrow();
  }
  sample.Input(shape).Input({}).Range(0.001, 0.01);
  AddStateAndGate(sample, std::nullopt);
  if (!counts_) sample.Int({2}, 0, 100, DType::kInt64);  // "rounding"
}

void UpdateSamples::OtherSlots(const std::vector<absl::string_view>& names) const {
  SNUG_CHECK(names.size() == static_cast<size_t>(slots_));
  for (int other = 0; other < slots_; ++other) {
    const absl::string_view name = names[static_cast<size_t>(other)];
    Sample& sample = s_.Case(absl::StrCat("slot_", name)).Input({4});
    for (int slot = 0; slot < slots_; ++slot) sample.Input(slot == other ? Shape{2} : Shape{4});
    sample.Input({4}).Input({});
    AddStateAndGate(sample, std::nullopt);
    sample.Fails(absl::StrCat("input ", 1 + other, " \"", name, "\" [2]: expected shape [4]"));
  }
}

void UpdateSamples::OtherState() const {
  Sample& sample = s_.Case("state").Input({4});
  for (int slot = 0; slot < slots_; ++slot) sample.Input({4});
  sample.Input({4}).Input({}).Int({2}, 0, 9).Bytes({}).Fails("expected int64[2], found int32[2]");
}

void UpdateSamples::Expect(absl::string_view name, const char* options, const Known& known) const {
  SNUG_CHECK(known.slots.size() == static_cast<size_t>(slots_) && known.slots_after.size() == known.slots.size());
  Sample& sample = Case(name, options).Input({2}).Values({1, -2});
  for (const std::vector<double>& slot : known.slots) sample.Input({2}).Values(slot);
  sample.Input({2}).Values(known.grad).Input({}).Values({known.rate});
  AddStateAndGate(sample, /*done=*/9);
  sample.ExpectMutated(0, known.param_after);
  for (int slot = 0; slot < slots_; ++slot) {
    sample.ExpectMutated(1 + slot, known.slots_after[static_cast<size_t>(slot)]);
  }
}

Sample& UpdateSamples::Case(absl::string_view name, const char* options) const {
  return s_.Case(name).With(proto::ParseOptions<proto::Update>(options));
}

void UpdateSamples::AddSlot(Sample& sample, int slot, const Shape& shape) const {
  sample.Input(shape);
  if ((squares_ >> slot & 1U) != 0) sample.Range(0.1, 1);
}

void UpdateSamples::AddStateAndGate(Sample& sample, std::optional<int> done, bool open) const {
  if (counts_) sample.Int({2}, 0, 100, DType::kInt64);
  if (counts_ && done.has_value()) sample.Values({1, static_cast<double>(*done)});
  sample.Bytes({}).Values({open ? 1.0 : 0.0});
}

}  // namespace snug::core
