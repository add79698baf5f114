#include "engine/run/observe/roofline.h"

#include <absl/algorithm/container.h>
#include <absl/strings/match.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/str_format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <map>
#include <tuple>
#include <utility>

#include "engine/compile/schedule/launch_groups.h"
#include "engine/run/observe/kernel_work.h"
#include "ops/graph_builder.h"

namespace snug::core {
namespace {

// What is left of a value in the device's cache: all of it, if less than half of the cache has been read and written
// since it was last used. The other half is for what a kernel brings in without using it again.
class Cache {
 public:
  explicit Cache(double bytes) : usable_(bytes / 2) {}

  // Notes a use, and returns how many of the bytes are there already.
  double Use(const Slot& slot, double bytes) {
    const auto place = std::make_tuple(slot.arena, slot.block, slot.offset);
    const auto found = last_use_.find(place);
    const bool there = found != last_use_.end() && traffic_ - found->second + bytes <= usable_;
    traffic_ += bytes;
    last_use_[place] = traffic_;
    return there ? bytes : 0;
  }
  bool Holds(double bytes) const { return bytes <= usable_; }

 private:
  double usable_;
  double traffic_ = 0;
  std::map<std::tuple<Arena, int32_t, int64_t>, double> last_use_;  // the traffic then
};

struct Traffic {
  double dram = 0, l2 = 0;  // bytes
  double bytes() const { return dram + l2; }
};

// How a library cuts a result, and how near to its best such a tile comes: there is less to use again in a small one,
// which tensor cores feel more than others, as they are faster.
struct Tile {
  double m, n, share;
};
constexpr Tile kTensorCoreTiles[] = {{256, 128, 1},  {128, 256, 1}, {128, 128, 0.9},
                                     {128, 64, 0.7}, {64, 64, 0.5}, {64, 32, 0.35}};
constexpr Tile kPlainTiles[] = {{128, 128, 1}, {128, 64, 0.95}, {64, 64, 0.85}, {64, 32, 0.7}, {32, 32, 0.55}};

struct ProductTime {
  double seconds = std::numeric_limits<double>::infinity();
  int cuts = 1;     // of the inner dimension
  double busy = 1;  // the part of the processors' time in which they have a tile
};

// The best of these tiles and cuts, as the libraries' heuristics find it. Every processor does one tile after the
// other.
ProductTime TimeOfProduct(const DeviceModel& device, const ProductShape& shape, bool tensor_cores,
                          double flops_per_second) {
  const double least_cut = tensor_cores ? 256 : 64;
  ProductTime best;
  for (const Tile& tile : tensor_cores ? absl::MakeConstSpan(kTensorCoreTiles) : absl::MakeConstSpan(kPlainTiles)) {
    for (int cuts = 1; cuts <= 32 && (cuts == 1 || shape.k / cuts >= least_cut); cuts *= 2) {
      const double tiles = std::ceil(shape.m / tile.m) * std::ceil(shape.n / tile.n) * shape.count * cuts;
      const double rounds = std::ceil(tiles / device.processors);
      const double in_tile = 2 * tile.m * tile.n * std::ceil(shape.k / cuts / 32) * 32;
      const double of_one = flops_per_second * tile.share / device.processors;
      // Partial sums, in float32, are written and read again by a kernel of their own.
      const double parts = cuts == 1
                               ? 0
                               : device.launch_seconds + 2 * 4 * shape.m * shape.n * shape.count * cuts /
                                                             (device.l2_bytes_per_second * device.streaming_share);
      const double seconds = rounds * in_tile / of_one + parts;
      if (seconds < best.seconds) best = {seconds, cuts, tiles / (rounds * device.processors)};
    }
  }
  return best;
}

// The share of an H100's peak that cuDNN's attention reaches, as published with FlashAttention-3 (Shah et al., 2024,
// figures 5 and 6), by width of a head and number of keys.
struct AttentionShare {
  double keys, forward_64, backward_64, forward_128, backward_128;
};
constexpr AttentionShare kAttention[] = {{128, 0.15, 0.12, 0.22, 0.14},
                                         {512, 0.34, 0.27, 0.50, 0.31},
                                         {1024, 0.38, 0.35, 0.58, 0.41},
                                         {2048, 0.40, 0.40, 0.62, 0.47},
                                         {16384, 0.42, 0.44, 0.60, 0.52}};
// Tiles on the diagonal are computed and masked: for the same keys, 258 of 373 TFLOP/s are left at 1024.
constexpr double kCausal = 0.7;

double ShareOfAttention(double keys, double width, bool backward, bool causal) {
  const auto of = [&](const AttentionShare& row) {
    if (width > 64) return backward ? row.backward_128 : row.forward_128;
    return backward ? row.backward_64 : row.forward_64;
  };
  const AttentionShare* at = kAttention;
  const AttentionShare* const last = kAttention + std::size(kAttention) - 1;
  while (at + 1 < last && at[1].keys < keys) ++at;
  const double t = std::clamp(std::log2(keys / at->keys) / std::log2(at[1].keys / at->keys), 0.0, 1.0);
  return (of(at[0]) * (1 - t) + of(at[1]) * t) * (causal ? kCausal : 1);
}

class Predictor {
 public:
  Predictor(const Compiled& compiled, const OpRegistry& registry, const DeviceModel& device)
      : compiled_(compiled), registry_(registry), device_(device), cache_(device.l2_bytes) {}

  PredictedKernel Predict(const Step& step) {
    const Node& node = compiled_.graph.node(step.node);
    const KernelChoice& choice = compiled_.kernels[static_cast<size_t>(step.node.index)];
    const OpDef& op = registry_.Get(node.op);
    const Cost cost = CostOf(op, step.types);
    const KernelWork work = WorkOf(op, step);
    PredictedKernel kernel = {.node = node.name,
                              .op = node.op,
                              .kernel = choice.Name(),
                              .types = TypesText(step.types),
                              .kind = work.kind,
                              .launches = static_cast<double>(work.launches),
                              .flops = cost.flops,
                              .bytes = cost.bytes + MutatedBytes(op, step.types)};
    const Traffic traffic = TrafficOf(step, kernel.bytes);
    const double peak = Peak(step.types, work.kind, absl::StrContains(choice.choice, "tf32"));
    kernel.least_seconds = std::max({peak > 0 ? cost.flops / peak : 0, traffic.dram / device_.dram_bytes_per_second,
                                     traffic.l2 / device_.l2_bytes_per_second});
    if (step.kernel->calls != nullptr && work.kind != KernelKind::kLibraryConvolution) {
      AddTimeOfCalls(step, peak, &kernel);
    } else {
      AddTime(op, step.types, cost, work, traffic, peak, &kernel);
    }
    return kernel;
  }

 private:
  static std::string TypesText(const NodeTypes& types) {
    std::string text;
    for (int i = 0; i < std::min(types.num_inputs(), 2); ++i) {
      if (types.has_input(i)) absl::StrAppend(&text, text.empty() ? "" : " ", types.input(i).ToString());
    }
    if (types.num_inputs() > 2) absl::StrAppend(&text, " ...");
    if (types.num_outputs() > 0) absl::StrAppend(&text, " -> ", types.output(0).ToString());
    return text;
  }

  static double MutatedBytes(const OpDef& op, const NodeTypes& types) {
    double bytes = 0;
    for (const Alias& alias : op.aliases) {
      if (alias.kind == Alias::Kind::kMutates && types.has_input(alias.input)) {
        bytes += static_cast<double>(types.input(alias.input).size_bytes());
      }
    }
    return bytes;
  }

  // `bytes` are those that the node needs; what of its inputs is in the cache comes from there. What is written goes to
  // memory.
  Traffic TrafficOf(const Step& step, double bytes) {
    double there = 0;
    for (int i = 0; i < step.types.num_inputs(); ++i) {
      if (!step.types.has_input(i)) continue;
      there += cache_.Use(step.inputs[static_cast<size_t>(i)], static_cast<double>(step.types.input(i).size_bytes()));
    }
    for (int i = 0; i < step.types.num_outputs(); ++i) {
      cache_.Use(step.outputs[static_cast<size_t>(i)], static_cast<double>(step.types.output(i).size_bytes()));
    }
    there = std::min(there, bytes);
    return {bytes - there, there};
  }

  static DType TypeOfNode(const NodeTypes& types) {
    for (const ValueType& output : types.outputs) {
      if (IsFloating(output.dtype)) return output.dtype;
    }
    return DType::kFloat32;
  }

  // Returns what the device does at best of such operations, in a second.
  double Peak(const NodeTypes& types, KernelKind kind, bool tf32) const {
    const DType dtype = TypeOfNode(types);
    if (dtype == DType::kFloat64) return device_.float64_flops;
    const bool products = kind != KernelKind::kStreaming && kind != KernelKind::kScattered;
    if (products && dtype == DType::kBFloat16) return device_.bfloat16_flops;
    return products && tf32 ? device_.tf32_flops : device_.float32_flops;
  }

  double Seconds(const Traffic& traffic, double share) const {
    return traffic.dram / (device_.dram_bytes_per_second * share) + traffic.l2 / (device_.l2_bytes_per_second * share);
  }

  // Bytes that a kernel reads once more.
  Traffic ReadAgain(const NodeTypes& types, double times) const {
    double largest = 0;
    for (int i = 0; i < types.num_inputs(); ++i) {
      if (types.has_input(i)) largest = std::max(largest, static_cast<double>(types.input(i).size_bytes()));
    }
    const double bytes = times * largest;
    return cache_.Holds(2 * largest) ? Traffic{0, bytes} : Traffic{bytes, 0};
  }

  struct Compute {
    double seconds = 0;
    int launches = 0;  // more than the kernel's
    std::string why;
  };
  Compute TimeOfCompute(const OpDef& op, const NodeTypes& types, const Cost& cost, const KernelWork& work,
                        double peak) const {
    const double flops = cost.flops * work.flops_factor;
    switch (work.kind) {
      case KernelKind::kStreaming:
      case KernelKind::kScattered:
        return {flops / (device_.float32_flops * device_.own_share), 0, "operations of every element"};
      case KernelKind::kOwnProduct:
        return {flops / (std::min(peak, device_.float32_flops) * device_.own_share), 0,
                "a kernel of ours that takes no tensor cores"};
      case KernelKind::kOwnTensorCore:
        return {flops / (peak * device_.own_tensor_core_share), 0, "a kernel of ours, by mma.sync"};
      case KernelKind::kLibraryAttention: {
        const auto [width, keys, results] = NumbersOf(op, types);
        const bool backward = absl::EndsWith(op.name, "_grad");
        const double products = backward ? 5 : 2;
        const double all = 2 * products * results * keys;
        const bool causal = cost.flops < 0.9 * all;
        return {flops / (peak * ShareOfAttention(keys, width, backward, causal)), 0,
                "softmax between products, and tiles of the diagonal that are computed in full"};
      }
      case KernelKind::kLibraryConvolution:
      case KernelKind::kLibraryProduct:
        return TimeOfLibrary(op, types, cost, work.kind, peak);
    }
    return {};
  }

  // Of attention: the width of a head, the number of keys, and that of the results' elements. `lse` has a number for
  // each query of each head: [batch, heads, queries].
  struct AttentionNumbers {
    double width, keys, results;
  };
  static AttentionNumbers NumbersOf(const OpDef& op, const NodeTypes& types) {
    const bool packed = absl::StartsWith(op.name, "packed_");
    const bool backward = absl::EndsWith(op.name, "_grad");
    const ValueType& out = backward ? types.input(packed ? 1 : 3) : types.output(0);
    const ValueType& lse = backward ? types.input(packed ? 2 : 4) : types.output(1);
    const auto results = static_cast<double>(out.num_elements());
    const double width = results / static_cast<double>(std::max<int64_t>(lse.num_elements(), 1));
    const int64_t queries = lse.shape[lse.shape.rank() - 1];
    const double of_heads = static_cast<double>(std::max<int64_t>(lse.num_elements() / queries, 1));
    const double keys =
        packed ? static_cast<double>(queries) : static_cast<double>(types.input(1).num_elements()) / width / of_heads;
    return {width, keys, results};
  }

  Compute TimeOfLibrary(const OpDef& op, const NodeTypes& types, const Cost& cost, KernelKind kind, double peak) const {
    const bool convolution = kind == KernelKind::kLibraryConvolution;
    const ProductShape shape = ProductOf(op, types, cost.flops);
    double rate = peak * (convolution ? device_.library_convolution_share : device_.library_product_share);
    if (convolution && shape.count > 8 && std::min(shape.n, shape.k) < 32) {
      // One channel for each group: no product is left, and the library has kernels without tensor cores.
      return {cost.flops / (std::min(peak, device_.float32_flops) * device_.own_share), 0,
              "groups of few channels: no tensor cores"};
    }
    const bool tensor_cores = peak > device_.float32_flops;
    if (!convolution && tensor_cores && !AlignedForTensorCores(types)) {
      constexpr double kLeft = 0.125;
      return {cost.flops / (rate * kLeft), 0, "rows that do not begin at multiples of 16 bytes keep tensor cores out"};
    }
    const ProductTime time = TimeOfProduct(device_, shape, tensor_cores, rate);
    std::string why = "what the library's products reach";
    if (time.busy < 0.7) why = absl::StrFormat("tiles that keep %.0f %% of the processors busy", 100 * time.busy);
    if (shape.k < 128) why = absl::StrFormat("an inner dimension of %.0f", shape.k);
    return {time.seconds, time.cuts > 1 ? 1 : 0, std::move(why)};
  }

  // Calls follow each other, and what one hands to the next passes through the cache if that holds it.
  void AddTimeOfCalls(const Step& step, double peak, PredictedKernel* kernel) const {
    const KernelCalls calls = step.kernel->calls(step.prepared.get());
    const bool in_cache = cache_.Holds(calls.kept_bytes);
    const double bytes_per_second =
        (in_cache ? device_.l2_bytes_per_second : device_.dram_bytes_per_second) * device_.streaming_share;
    const auto size = static_cast<double>(SizeOf(TypeOfNode(step.types)));
    double products = 0;
    kernel->launches = calls.sweeps;
    for (const KernelCalls::Product& one : calls.products) {
      const ProductTime time = TimeOfProduct(device_, {one.count, one.m, one.n, one.k}, peak > device_.float32_flops,
                                             peak * device_.library_product_share);
      const double bytes = size * one.count * (one.m * one.k + one.k * one.n + one.m * one.n);
      products += one.calls * std::max(time.seconds, bytes / bytes_per_second);
      kernel->launches += one.calls * (time.cuts > 1 ? 2 : 1);
    }
    const double sweeps = calls.sweep_bytes / bytes_per_second;
    const double launches = kernel->launches * (device_.launch_seconds + device_.latency_seconds);
    kernel->seconds = products + sweeps + launches;
    kernel->why = absl::StrFormat("%.0f launches", kernel->launches);
    if (std::max(sweeps, products - kernel->least_seconds) > launches) {
      kernel->why = sweeps > products - kernel->least_seconds ? "scores that pass between products"
                                                              : "what the library's products of these sizes reach";
    }
  }

  void AddTime(const OpDef& op, const NodeTypes& types, const Cost& cost, const KernelWork& work,
               const Traffic& traffic, double peak, PredictedKernel* kernel) const {
    const Compute compute = TimeOfCompute(op, types, cost, work, peak);
    const double share = work.kind == KernelKind::kScattered ? device_.scattered_share : device_.streaming_share;
    const double once = Seconds(traffic, share);
    const double again = Seconds(ReadAgain(types, work.read_again), share);
    kernel->launches += compute.launches;
    const double launches = work.launches * (device_.launch_seconds + device_.latency_seconds);
    kernel->seconds = launches + std::max(compute.seconds, once + again);
    // Of what comes beside the least time, the largest part.
    const double memory_least =
        std::max(traffic.dram / device_.dram_bytes_per_second, traffic.l2 / device_.l2_bytes_per_second);
    std::vector<std::pair<double, std::string>> reasons = {
        {launches, kernel->launches > 1.5 ? absl::StrFormat("%.0f launches", kernel->launches) : "one launch"}};
    if (compute.seconds > once + again) {
      reasons.emplace_back(compute.seconds - kernel->least_seconds, compute.why);
    } else {
      reasons.emplace_back(again, work.kind == KernelKind::kLibraryConvolution
                                      ? "data that are folded into more channels first"
                                      : "data that are read twice: sums first, then a sweep");
      reasons.emplace_back(once - memory_least, work.kind == KernelKind::kScattered
                                                    ? "few bytes at a time, or far apart"
                                                    : "the share of the bandwidth that streaming reaches");
    }
    kernel->why = absl::c_max_element(reasons, [](const auto& a, const auto& b) { return a.first < b.first; })->second;
  }

  const Compiled& compiled_;
  const OpRegistry& registry_;
  const DeviceModel& device_;
  Cache cache_;
};

// Steps that are asked for in one launch have a part of it each.
void ShareLaunches(const Executable& executable, const DeviceModel& device, std::vector<PredictedKernel>* kernels) {
  for (const LaunchGroup& group : GroupLaunches(executable.steps, executable.schedule)) {
    if (group.steps.size() < 2) continue;
    const double part = 1 / static_cast<double>(group.steps.size());
    for (const size_t i : group.steps) {
      PredictedKernel& kernel = (*kernels)[i];
      kernel.seconds -= (device.launch_seconds + device.latency_seconds) * (1 - part);
      kernel.launches = part;
    }
  }
}

// The tokens of a text, if the network reads such: integers [batch, positions].
double PositionsOf(const Executable& executable) {
  for (const Endpoint& input : executable.inputs) {
    if (!IsFloating(input.type.dtype) && input.type.shape.rank() == 2) return static_cast<double>(input.type.shape[1]);
  }
  return 1;
}

}  // namespace

Roofline PredictStep(const Compiled& compiled, const OpRegistry& registry, const DeviceModel& device, bool one_by_one) {
  Roofline roofline = {.device = device};
  Predictor predictor(compiled, registry, roofline.device);
  for (const Step& step : compiled.executable.steps) roofline.kernels.push_back(predictor.Predict(step));
  if (!one_by_one) ShareLaunches(compiled.executable, device, &roofline.kernels);
  std::vector<double> seconds;
  for (const PredictedKernel& kernel : roofline.kernels) {
    seconds.push_back(kernel.seconds);
    roofline.launches += kernel.launches;
    roofline.least_seconds += kernel.least_seconds;
  }
  // Streams share the device: whatever runs beside what, all bytes and operations have to pass through it.
  const double span = EstimateSpan(compiled.executable.schedule, seconds);
  roofline.seconds = std::max(span, roofline.least_seconds) + device.step_seconds;
  roofline.samples = static_cast<double>(compiled.batch);
  roofline.positions = PositionsOf(compiled.executable);
  return roofline;
}

}  // namespace snug::core
