#include "tests/testing/sample_values.h"

#include <absl/strings/str_cat.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "engine/base/random.h"
#include "engine/base/status.h"

namespace snug::core::test {
namespace {

constexpr double kKinkDistance = 0.05;

class Random {
 public:
  explicit Random(uint64_t seed) : philox_{seed} {}
  double Uniform() {  // [0, 1), 53 bits
    const auto words = philox_(0, counter_++);
    return static_cast<double>((uint64_t{words[0]} << 21) ^ (words[1] >> 11)) * 0x1p-53;
  }
  int64_t Below(int64_t bound) { return static_cast<int64_t>(Uniform() * static_cast<double>(bound)); }

 private:
  Philox philox_;
  uint64_t counter_ = 0;
};

uint64_t Hash(absl::string_view text) {  // FNV-1a: the same on every machine
  uint64_t hash = 14695981039346656037U;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211U;
  return hash;
}

DType PortDType(PortType port, DType dtype) {
  switch (port) {
    case PortType::kFloating:
    case PortType::kAny:
      return dtype;
    case PortType::kFloat32:
    case PortType::kKept:
      return dtype == DType::kFloat64 ? DType::kFloat64 : DType::kFloat32;
    case PortType::kInteger:
      return DType::kInt32;
    case PortType::kBytes:
      return DType::kUint8;
  }
  return dtype;
}

const Port& PortAt(const OpDef& op, size_t i) {
  SNUG_CHECK_MSG(!op.inputs.empty(), absl::StrCat("op ", op.name, " has no inputs, its sample has"));
  return op.inputs[std::min(i, op.inputs.size() - 1)];
}

// Multiples of a power of two, in random order: they differ by at least 1/64, and stay apart in bfloat16 (up to about
// 256 of them).
std::vector<double> DistinctValues(Random& random, int64_t count, double low, double high) {
  const double room = (high - low) / static_cast<double>(std::max<int64_t>(count, 1));
  const double step = std::exp2(std::floor(std::log2(std::max(room, 1.0 / 64))));
  double first = std::ceil(low / step) * step;
  if (first + step * static_cast<double>(count) > high) {  // does not fit: around the middle
    first = (std::floor((low + high) / 2 / step) - static_cast<double>(count / 2)) * step;
  }
  std::vector<double> values(static_cast<size_t>(count));
  for (size_t i = 0; i < values.size(); ++i) values[i] = first + step * static_cast<double>(i);
  for (size_t i = values.size(); i > 1; --i) {
    std::swap(values[i - 1], values[static_cast<size_t>(random.Below(static_cast<int64_t>(i)))]);
  }
  return values;
}

bool NearKink(double value, const std::vector<double>& kinks) {
  return std::any_of(kinks.begin(), kinks.end(),
                     [value](double kink) { return std::abs(value - kink) < kKinkDistance; });
}

std::vector<double> InputValues(const SampleInput& input, uint64_t seed) {
  const int64_t count = input.shape.num_elements();
  if (!input.values.empty()) {
    SNUG_CHECK_MSG(static_cast<int64_t>(input.values.size()) == count,
                   absl::StrCat(input.values.size(), " values for ", input.shape.ToString()));
    return input.values;
  }
  Random random(seed);
  if (input.distinct) {
    SNUG_CHECK_MSG(input.kinks.empty(), "a sample input is Distinct() or AwayFrom(), not both");
    return DistinctValues(random, count, input.low, input.high);
  }
  std::vector<double> values(static_cast<size_t>(count));
  for (double& value : values) {
    do {
      value = input.low + (input.high - input.low) * random.Uniform();
    } while (NearKink(value, input.kinks));
    if (input.is_integer) value = std::floor(value);
  }
  return values;
}

int FullRank(const Sample& sample) {
  int rank = 0;
  for (const SampleInput& input : sample.inputs()) {
    if (!input.absent) rank = std::max(rank, input.shape.rank());
  }
  return rank;
}

bool TakesChannelsLast(const OpDef& op, const Sample& sample, size_t i) {
  const SampleInput& input = sample.inputs()[i];
  const int rank = input.shape.rank();
  return !input.absent && !PortAt(op, i).plain_layout && rank == FullRank(sample) && rank >= 3 && rank <= 5;
}

}  // namespace

NodeTypes SampleTypes(const OpDef& op, const Sample& sample, DType dtype, Layout layout) {
  NodeTypes types;
  types.options = sample.options();
  for (size_t i = 0; i < sample.inputs().size(); ++i) {
    const SampleInput& input = sample.inputs()[i];
    ValueType type;
    if (!input.absent) {
      const PortType port = input.narrow ? PortType::kFloating : PortAt(op, i).type;
      type = {input.dtype.value_or(PortDType(port, dtype)), input.shape,
              TakesChannelsLast(op, sample, i) ? layout : Layout::Plain()};
    }
    types.inputs.push_back(type);
    types.present.push_back(!input.absent);
  }
  return types;
}

bool HasChannelsLastForm(const OpDef& op, const Sample& sample) {
  if (op.traits.layout == LayoutRule::kPlain) return false;
  for (size_t i = 0; i < sample.inputs().size(); ++i) {
    if (TakesChannelsLast(op, sample, i)) return true;
  }
  return false;
}

uint64_t SampleSeed(const OpDef& op, const Sample& sample) {
  return Hash(absl::StrCat(absl::string_view(op.name), "/", sample.name()));
}

std::vector<Tensor> SampleValues(const OpDef& op, const Sample& sample, const NodeTypes& types) {
  std::vector<Tensor> values;
  for (size_t i = 0; i < sample.inputs().size(); ++i) {
    const SampleInput& input = sample.inputs()[i];
    if (input.absent) {
      values.emplace_back();
      continue;
    }
    values.push_back(Tensor::FromDoubles(types.inputs[i], InputValues(input, MixKeys(SampleSeed(op, sample), i))));
  }
  return values;
}

std::vector<double> RandomValues(uint64_t seed, int64_t count, double low, double high) {
  return InputValues({.shape = {count}, .low = low, .high = high}, seed);
}

}  // namespace snug::core::test
