#include "tests/ops/conformance.h"

#include <absl/algorithm/container.h>
#include <absl/strings/match.h>
#include <absl/strings/str_cat.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "engine/base/status.h"
#include "ops/graph_builder.h"
#include "ops/prepare_context.h"
#include "tests/testing/gradient_check.h"
#include "tests/testing/node_runner.h"
#include "tests/testing/sample_values.h"

namespace snug::core::test {
namespace {

constexpr uint8_t kGarbage = 0xFF;  // NaN in every floating dtype
constexpr uint8_t kOtherGarbage = 0xCD;
constexpr double kExactTolerance = 1e-12;
// A gradient is a chain of kernels, each with its own rounding.
constexpr double kGradientSlack = 4;

absl::string_view ChoiceName(KernelChoice choice) {
  switch (choice) {
    case KernelChoice::kPlain:
      return "plain";
    case KernelChoice::kFast:
      return "fast";
    case KernelChoice::kKept:
      return "kept";
    case KernelChoice::kCuda:
      return "CUDA";
  }
  return "?";
}

// One node of a case, ready to be run in different ways.
struct Setup {
  NodeTypes types;
  std::vector<Tensor> inputs;
};

absl::StatusOr<Setup> MakeSetup(const ConformanceCase& c, DType dtype, const Layout& layout) {
  Setup setup;
  setup.types = SampleTypes(*c.op, *c.sample, dtype, layout);
  setup.inputs = SampleValues(*c.op, *c.sample, setup.types);
  SNUG_RETURN_IF_ERROR(Annotate(InferTypes(*c.op, &setup.types), "inference"));
  return setup;
}
absl::StatusOr<Setup> MakeSetup(const ConformanceCase& c) { return MakeSetup(c, c.dtype, c.layout); }

// Makes a setup with the same numbers in double.
absl::StatusOr<Setup> MakeDoubleSetup(const ConformanceCase& c, const Setup& setup) {
  Setup result;
  result.types = SampleTypes(*c.op, *c.sample, DType::kFloat64);
  for (size_t i = 0; i < setup.inputs.size(); ++i) {
    const ValueType& type = result.types.inputs[i];
    result.inputs.push_back(
        !result.types.present[i] ? Tensor() : WithDType(WithLayout(setup.inputs[i], Layout::Plain()), type.dtype));
  }
  SNUG_RETURN_IF_ERROR(Annotate(InferTypes(*c.op, &result.types), "inference"));
  return result;
}

absl::StatusOr<NodeRun> RunOnce(const OpRegistry& registry, const ConformanceCase& c, const Setup& setup,
                                KernelChoice choice, int threads, const RunOptions& options = {}) {
  SNUG_ASSIGN_OR_RETURN(const NodeRunner runner,
                        NodeRunner::Make(registry, *c.op, setup.types, choice, threads, c.sample->random_id()));
  return runner.Run(setup.inputs, options);
}

// Returns all that a node leaves behind, each with a name: outputs, then mutated inputs.
std::vector<std::pair<std::string, Tensor>> ResultsOf(const NodeRun& run) {
  std::vector<std::pair<std::string, Tensor>> results;
  for (size_t o = 0; o < run.outputs.size(); ++o) results.emplace_back(absl::StrCat("output ", o), run.outputs[o]);
  for (const auto& [i, tensor] : run.mutated) results.emplace_back(absl::StrCat("mutated input ", i), tensor);
  return results;
}

void CompareBits(absl::string_view what, const NodeRun& a, const NodeRun& b, Failures* failures) {
  const auto left = ResultsOf(a);
  const auto right = ResultsOf(b);
  for (size_t i = 0; i < left.size(); ++i) {
    const auto difference = FindBitDifference(left[i].second, right[i].second);
    if (difference.has_value()) {
      failures->push_back(absl::StrCat(absl::string_view(what), ": ", left[i].first, " ", *difference));
    }
  }
}

// Compares numbers only. Bytes are an op's own business (masks, indices, reserve space), and show in what it makes of
// them.
void CompareNumbers(absl::string_view what, const NodeRun& found, const NodeRun& expected, double tolerance,
                    Failures* failures) {
  const auto left = ResultsOf(found);
  const auto right = ResultsOf(expected);
  for (size_t i = 0; i < left.size(); ++i) {
    const Tensor& tensor = left[i].second;
    if (tensor.type.dtype == DType::kUint8) continue;
    const auto difference = FindDifference(tensor.type.shape, tensor.ToDoubles(), right[i].second.ToDoubles(),
                                           IsFloating(tensor.type.dtype) ? tolerance : 0);
    if (difference.has_value()) {
      failures->push_back(absl::StrCat(absl::string_view(what), ": ", left[i].first, " ", *difference));
    }
  }
}

Failures FailuresOf(const absl::Status& status, Failures failures) {
  if (!status.ok()) failures.push_back(std::string(status.message()));
  return failures;
}

// The rows that serve where no input is kept; none for views.
std::vector<const KernelRow*> ServingOnCpu(const OpDef& op, const NodeTypes& types) {
  std::vector<const KernelRow*> rows = op.KernelsOn(Device::Kind::kCpu);
  std::erase_if(rows, [&](const KernelRow* row) {
    return row->kept_input != nullptr || (row->serves != nullptr && row->serves(types).has_value());
  });
  return rows;
}

std::optional<size_t> GateOf(const ConformanceCase& c) {
  for (size_t i = 0; i < c.op->inputs.size() && i < c.sample->inputs().size(); ++i) {
    if (c.op->inputs[i].name == "gate" && !c.sample->inputs()[i].absent) return i;
  }
  return std::nullopt;
}

std::vector<Alias> PossibleInPlace(const ConformanceCase& c, const Setup& setup) {
  std::vector<Alias> possible;
  for (const Alias& alias : c.op->aliases) {
    if (alias.kind != Alias::Kind::kMayShare) continue;
    const size_t i = static_cast<size_t>(alias.input);
    const size_t o = static_cast<size_t>(alias.output);
    if (i >= setup.types.inputs.size() || !setup.types.present[i] || o >= setup.types.outputs.size()) continue;
    if (setup.types.inputs[i].size_bytes() == setup.types.outputs[o].size_bytes()) possible.push_back(alias);
  }
  return possible;
}

std::string InPlaceText(const Alias& alias) {
  return absl::StrCat("output ", alias.output, " in place of input ", alias.input);
}

absl::Status CheckKernel(const OpRegistry& registry, const ConformanceCase& c, KernelChoice choice,
                         Failures* failures) {
  SNUG_ASSIGN_OR_RETURN(const Setup setup, MakeSetup(c));
  SNUG_ASSIGN_OR_RETURN(const NodeRun first, RunOnce(registry, c, setup, choice, 1, {.garbage = kGarbage}));
  SNUG_ASSIGN_OR_RETURN(const NodeRun again, RunOnce(registry, c, setup, choice, 1, {.garbage = kOtherGarbage}));
  CompareBits("run again over other garbage in outputs and workspace", first, again, failures);

  // A library's bits may depend on the threads, and so may what it has a kernel for.
  const auto is_own = [&](int threads) -> absl::StatusOr<bool> {
    SNUG_ASSIGN_OR_RETURN(const NodeRunner runner,
                          NodeRunner::Make(registry, *c.op, setup.types, choice, threads, c.sample->random_id()));
    return runner.kernel() == nullptr || runner.kernel()->library.empty();
  };
  SNUG_ASSIGN_OR_RETURN(bool any_threads, is_own(1));
  for (const int threads : {2, 3}) {
    if (choice == KernelChoice::kCuda) break;
    SNUG_ASSIGN_OR_RETURN(const NodeRun run, RunOnce(registry, c, setup, choice, threads, {.garbage = kOtherGarbage}));
    SNUG_ASSIGN_OR_RETURN(const bool own, is_own(threads));
    any_threads = any_threads && own;
    if (any_threads) CompareBits(absl::StrCat("1 and ", threads, " threads"), first, run, failures);
  }

  // Each output is tried over each input that it may lie on, and two at once.
  const std::vector<Alias> in_place = PossibleInPlace(c, setup);
  for (const Alias& alias : in_place) {
    for (const int threads : {1, 3}) {
      if (threads > 1 && (!any_threads || choice == KernelChoice::kCuda)) continue;
      SNUG_ASSIGN_OR_RETURN(const NodeRun run, RunOnce(registry, c, setup, choice, threads, {.in_place = {alias}}));
      CompareBits(absl::StrCat(InPlaceText(alias), ", ", threads, " threads"), first, run, failures);
    }
    for (const Alias& other : in_place) {
      if (other.output <= alias.output || other.input == alias.input) continue;
      SNUG_ASSIGN_OR_RETURN(const NodeRun run, RunOnce(registry, c, setup, choice, 1, {.in_place = {alias, other}}));
      CompareBits(absl::StrCat(InPlaceText(alias), " and ", InPlaceText(other)), first, run, failures);
    }
  }

  if (const std::optional<size_t> gate = GateOf(c); gate.has_value()) {
    Setup closed = setup;
    closed.inputs[*gate].Set(0, 0);
    SNUG_ASSIGN_OR_RETURN(const NodeRun run, RunOnce(registry, c, closed, choice, 1));
    for (const auto& [i, tensor] : run.mutated) {
      const auto difference = FindBitDifference(setup.inputs[static_cast<size_t>(i)], tensor);
      if (difference.has_value()) {
        failures->push_back(absl::StrCat("the gate is 0, yet input ", i, " changed: ", *difference));
      }
    }
  }
  return absl::OkStatus();
}

// Runs a kernel that the op offers besides its own choice.
absl::StatusOr<NodeRun> RunChoice(const OpRegistry& registry, const ConformanceCase& c, const Setup& setup,
                                  KernelChoice choice, const std::string& name, int threads, Failures* failures) {
  SNUG_ASSIGN_OR_RETURN(const NodeRunner runner,
                        NodeRunner::Make(registry, *c.op, setup.types, choice, threads, c.sample->random_id(), name));
  const bool is_row =
      absl::c_any_of(c.op->KernelsOn(Device::Kind::kCpu), [&](const KernelRow* row) { return row->name == name; });
  if (is_row && runner.kernel()->name != name) {
    failures->push_back(absl::StrCat("asked for \"", name, "\", got \"", runner.kernel()->name, "\""));
  }
  SNUG_ASSIGN_OR_RETURN(const NodeRun first, runner.Run(setup.inputs, {.garbage = kGarbage}));
  SNUG_ASSIGN_OR_RETURN(const NodeRun again, runner.Run(setup.inputs, {.garbage = kOtherGarbage}));
  CompareBits(absl::StrCat("\"", name, "\" on ", threads, " threads, run again over other garbage"), first, again,
              failures);
  return first;
}

// Tries what `snug tune` may ask for, and the rows that it may where inputs are kept, which are our own.
absl::Status CompareChoices(const OpRegistry& registry, const ConformanceCase& c, const Setup& setup,
                            const NodeRun& plain, double tolerance, Failures* failures) {
  for (const KernelRow* row : c.op->KernelsOn(Device::Kind::kCpu)) {
    if (row->kept_input == nullptr || !row->tunable) continue;
    if (row->serves != nullptr && row->serves(setup.types).has_value()) continue;
    const std::string name(row->name);
    SNUG_ASSIGN_OR_RETURN(const NodeRun one,
                          RunChoice(registry, c, setup, KernelChoice::kKept, name, /*threads=*/1, failures));
    SNUG_ASSIGN_OR_RETURN(const NodeRun three,
                          RunChoice(registry, c, setup, KernelChoice::kKept, name, /*threads=*/3, failures));
    CompareNumbers(absl::StrCat("\"", name, "\" against the plain kernel"), one, plain, tolerance, failures);
    CompareBits(absl::StrCat("\"", name, "\" on three threads against one"), three, one, failures);
  }
  const std::vector<const KernelRow*> rows = ServingOnCpu(*c.op, setup.types);
  if (rows.empty()) return absl::OkStatus();
  for (const int threads : {1, 2}) {
    SNUG_ASSIGN_OR_RETURN(const std::vector<std::string> names,
                          ChoicesAmong(rows, PrepareContext(setup.types, threads)));
    for (const std::string& name : names) {
      absl::StatusOr<NodeRun> made = RunChoice(registry, c, setup, KernelChoice::kFast, name, threads, failures);
      // A library is asked as it is prepared, and may have nothing then.
      const bool of_library =
          absl::c_any_of(rows, [&](const KernelRow* row) { return row->name == name && !row->library.empty(); });
      if (of_library && absl::IsUnimplemented(made.status())) continue;
      SNUG_ASSIGN_OR_RETURN(const NodeRun run, std::move(made));
      CompareNumbers(absl::StrCat("\"", name, "\" on ", threads, " threads against the plain kernel"), run, plain,
                     tolerance, failures);
    }
  }
  return absl::OkStatus();
}

absl::Status CompareResults(const OpRegistry& registry, const ConformanceCase& c, Failures* failures) {
  SNUG_ASSIGN_OR_RETURN(const Setup setup, MakeSetup(c));
  SNUG_ASSIGN_OR_RETURN(const NodeRun plain, RunOnce(registry, c, setup, KernelChoice::kPlain, 1));
  const bool exact = c.dtype == DType::kFloat64;
  const double tolerance = exact ? kExactTolerance : c.sample->tolerance(c.dtype);

  const auto compare_known = [&](absl::string_view what, const Tensor& tensor, const std::vector<double>& values) {
    const auto difference = FindDifference(tensor.type.shape, tensor.ToDoubles(), values, tolerance);
    if (difference.has_value()) failures->push_back(absl::StrCat("known values: ", what, " ", *difference));
  };
  for (const auto& [o, values] : c.sample->expected()) {
    compare_known(absl::StrCat("output ", o), plain.outputs[static_cast<size_t>(o)], values);
  }
  for (const auto& [i, values] : c.sample->expected_mutated()) {
    const auto found = std::find_if(plain.mutated.begin(), plain.mutated.end(),
                                    [input = i](const auto& entry) { return entry.first == input; });
    if (found == plain.mutated.end()) return absl::InternalError(absl::StrCat("the op does not mutate input ", i));
    compare_known(absl::StrCat("mutated input ", i), found->second, values);
  }
  if (!exact) {
    SNUG_ASSIGN_OR_RETURN(const Setup double_setup, MakeDoubleSetup(c, setup));
    SNUG_ASSIGN_OR_RETURN(const NodeRun truth, RunOnce(registry, c, double_setup, KernelChoice::kPlain, 1));
    CompareNumbers("plain kernel against the one in double", plain, truth, tolerance, failures);
    for (const int threads : {1, 3, 5}) {  // a library's may depend on them
      SNUG_ASSIGN_OR_RETURN(const NodeRun fast, RunOnce(registry, c, setup, KernelChoice::kFast, threads));
      CompareNumbers(absl::StrCat("fast kernel on ", threads, " threads against the plain one"), fast, plain, tolerance,
                     failures);
    }
    SNUG_ASSIGN_OR_RETURN(const NodeRun kept, RunOnce(registry, c, setup, KernelChoice::kKept, 2));
    CompareNumbers("fast kernel on what is kept against the plain one", kept, plain, tolerance, failures);
    SNUG_RETURN_IF_ERROR(CompareChoices(registry, c, setup, plain, tolerance, failures));
  } else if (!c.layout.plain()) {
    SNUG_ASSIGN_OR_RETURN(const Setup plain_setup, MakeSetup(c, c.dtype, Layout::Plain()));
    SNUG_ASSIGN_OR_RETURN(const NodeRun reference, RunOnce(registry, c, plain_setup, KernelChoice::kPlain, 1));
    CompareNumbers("channels-last against plain layout", plain, reference, tolerance, failures);
  }
  return absl::OkStatus();
}

// Compares the chain of forward and gradient by fast kernels, in the case's dtype and layout, with plain kernels in
// double. So what forward keeps for backward is read by the kernels that it is meant for.
absl::Status CompareGradientChain(const OpRegistry& registry, const ConformanceCase& c,
                                  const std::vector<KernelChoice>& choices, Failures* failures) {
  SNUG_ASSIGN_OR_RETURN(const Setup setup, MakeSetup(c));
  SNUG_ASSIGN_OR_RETURN(const Setup double_setup, MakeDoubleSetup(c, setup));
  const std::vector<bool> wanted = DifferentiableInputs(*c.op, *c.sample, setup.types);
  const std::vector<bool> weighted = DifferentiableOutputs(*c.op, setup.types);
  if (std::count(wanted.begin(), wanted.end(), true) == 0) return absl::OkStatus();
  if (std::count(weighted.begin(), weighted.end(), true) == 0) return absl::OkStatus();

  SNUG_ASSIGN_OR_RETURN(const GradientGraph graph,
                        BuildGradientGraph(registry, *c.op, *c.sample, setup.types, wanted, weighted));
  SNUG_ASSIGN_OR_RETURN(const GradientGraph double_graph,
                        BuildGradientGraph(registry, *c.op, *c.sample, double_setup.types, wanted, weighted));
  const std::map<ValueId, Tensor> feeds = FeedsOf(graph, *c.op, *c.sample, setup.types);
  std::map<ValueId, Tensor> double_feeds;  // the same numbers in double
  const auto add = [&](ValueId from, ValueId to) {
    if (!from.valid()) return;
    const Tensor plain = WithLayout(feeds.at(from), Layout::Plain());
    double_feeds.emplace(to, WithDType(plain, double_graph.graph.type(to).dtype));
  };
  for (size_t i = 0; i < graph.inputs.size(); ++i) add(graph.inputs[i], double_graph.inputs[i]);
  for (size_t o = 0; o < graph.output_grads.size(); ++o) add(graph.output_grads[o], double_graph.output_grads[o]);

  SNUG_ASSIGN_OR_RETURN(const std::vector<Tensor> truth,
                        EvaluateGradient(registry, double_graph, double_feeds, KernelChoice::kPlain));
  const double tolerance = c.dtype == DType::kFloat64 ? kExactTolerance : c.sample->tolerance(c.dtype);
  for (const KernelChoice choice : choices) {
    SNUG_ASSIGN_OR_RETURN(const std::vector<Tensor> found, EvaluateGradient(registry, graph, feeds, choice));
    for (size_t i = 0; i < wanted.size(); ++i) {
      if (!wanted[i]) continue;
      const auto difference =
          FindDifference(found[i].type.shape, found[i].ToDoubles(), truth[i].ToDoubles(), kGradientSlack * tolerance);
      if (difference.has_value()) {
        failures->push_back(absl::StrCat("gradient by ", ChoiceName(choice),
                                         " kernels against the one in double: input ", i, " ", *difference));
      }
    }
  }
  return absl::OkStatus();
}

// A library may compute convolutions in float32 after Winograd. In the tiles that are usual (4 x 4 results of 3 x 3
// taps) its transforms multiply by up to 8 and cancel again, which makes errors larger by about an order of magnitude
// (Lavin and Gray, 2016). What is wrong is off by more than that.
double CudaTolerance(const ConformanceCase& c, DType precision) {
  constexpr double kWinograd = 16;
  if (c.dtype == DType::kFloat64) return kExactTolerance;
  const bool convolution = precision == DType::kFloat32 && absl::StartsWith(c.op->name, "conv");
  return c.sample->tolerance(precision) * (convolution ? kWinograd : 1);
}

absl::Status CompareCuda(const OpRegistry& registry, const ConformanceCase& c, Failures* failures) {
  SNUG_ASSIGN_OR_RETURN(const Setup setup, MakeSetup(c));
  SNUG_ASSIGN_OR_RETURN(const NodeRun plain, RunOnce(registry, c, setup, KernelChoice::kPlain, 1));
  SNUG_ASSIGN_OR_RETURN(const NodeRun found, RunOnce(registry, c, setup, KernelChoice::kCuda, 1));
  const double tolerance = CudaTolerance(c, c.dtype);
  CompareNumbers("CUDA kernel against the plain one", found, plain, tolerance, failures);
  for (size_t o = 0; o < found.outputs.size(); ++o) {
    if (found.outputs[o].type.dtype != DType::kUint8) continue;
    const auto difference = FindBitDifference(found.outputs[o], plain.outputs[o]);
    if (difference.has_value())
      failures->push_back(absl::StrCat("CUDA kernel: bytes of output ", o, ": ", *difference));
  }
  return absl::OkStatus();
}

// If a node has several CUDA kernels, tries each by its name.
absl::Status CompareCudaChoices(const OpRegistry& registry, const ConformanceCase& c, Failures* failures) {
  if (c.op->KernelsOn(kOnCuda).size() < 2) return absl::OkStatus();
  SNUG_ASSIGN_OR_RETURN(const Setup setup, MakeSetup(c));
  SNUG_ASSIGN_OR_RETURN(const NodeRun plain, RunOnce(registry, c, setup, KernelChoice::kPlain, 1));
  for (const absl::string_view name :
       {"library", "library_tf32", "library_fast", "library_tf32_fast", "small", "own"}) {
    const absl::StatusOr<NodeRunner> runner =
        NodeRunner::Make(registry, *c.op, setup.types, KernelChoice::kCuda, 1, c.sample->random_id(), name);
    if (absl::IsInvalidArgument(runner.status()) && name != "own") continue;  // this node has no such kernel
    SNUG_RETURN_IF_ERROR(runner.status());
    SNUG_ASSIGN_OR_RETURN(const NodeRun first, runner->Run(setup.inputs, {.garbage = kGarbage}));
    SNUG_ASSIGN_OR_RETURN(const NodeRun again, runner->Run(setup.inputs, {.garbage = kOtherGarbage}));
    if (!absl::StrContains(name, "fast")) {
      CompareBits(absl::StrCat("\"", name, "\", run again over other garbage"), first, again, failures);
    }
    // This is generous: the mantissa of TF32 is longer than bfloat16's.
    const DType precision = absl::StrContains(name, "tf32") ? DType::kBFloat16 : c.dtype;
    const double tolerance = absl::StrContains(name, "library") ? CudaTolerance(c, precision)
                             : c.dtype == DType::kFloat64       ? kExactTolerance
                                                                : c.sample->tolerance(precision);
    CompareNumbers(absl::StrCat("\"", name, "\" against the plain kernel"), first, plain, tolerance, failures);
  }
  return absl::OkStatus();
}

bool IsBad(const Sample& sample) { return !sample.infer_error().empty() || !sample.run_error().empty(); }

}  // namespace

std::deque<OpSamples> CollectSamples(const OpRegistry& registry) {
  std::deque<OpSamples> result;
  for (const OpDef* op : registry.all()) {
    if (op->samples == nullptr) continue;
    op->samples(result.emplace_back(OpSamples{op, {}}).samples);
  }
  return result;
}

std::string ConformanceCase::Name() const {
  return absl::StrCat(absl::string_view(op->name), "/", sample->name(), "/", absl::string_view(core::Name(dtype)),
                      layout.plain() ? "" : "/channels_last");
}

std::vector<ConformanceCase> CasesOf(const std::deque<OpSamples>& samples) {
  std::vector<ConformanceCase> cases;
  for (const OpSamples& of_op : samples) {
    for (const Sample& sample : of_op.samples.cases()) {
      for (const DType dtype : sample.dtypes()) {
        cases.push_back({of_op.op, &sample, dtype, Layout::Plain()});
        if (!IsBad(sample) && HasChannelsLastForm(*of_op.op, sample)) {
          cases.push_back({of_op.op, &sample, dtype, Layout::ChannelsLast()});
        }
        if (!sample.infer_error().empty()) break;  // the dtype does not matter to a rejection, so one case is enough
      }
    }
  }
  return cases;
}

Failures CheckCase(const OpRegistry& registry, const ConformanceCase& c) {
  if (IsBad(*c.sample)) return CheckRejection(registry, c);
  Failures failures = CheckInference(c);
  if (!failures.empty()) return failures;  // the rest would only repeat them
  for (Failures more : {CheckKernels(registry, c), CheckResults(registry, c), CheckGradients(registry, c)}) {
    failures.insert(failures.end(), more.begin(), more.end());
  }
  return failures;
}

Failures CheckRejection(const OpRegistry& registry, const ConformanceCase& c) {
  Failures failures;
  if (!c.sample->infer_error().empty()) {
    NodeTypes types = SampleTypes(*c.op, *c.sample, c.dtype, c.layout);
    const absl::Status status = InferTypes(*c.op, &types);
    if (status.code() != absl::StatusCode::kInvalidArgument ||
        !absl::StrContains(status.message(), c.sample->infer_error())) {
      failures.push_back(absl::StrCat("inference: expected INVALID_ARGUMENT with \"", c.sample->infer_error(),
                                      "\", found ", status.ToString()));
    }
    return failures;
  }
  absl::StatusOr<Setup> setup = MakeSetup(c);
  if (!setup.ok()) return FailuresOf(setup.status(), failures);
  for (const KernelChoice choice : {KernelChoice::kPlain, KernelChoice::kFast}) {
    const absl::StatusOr<NodeRun> run = RunOnce(registry, c, *setup, choice, 2);
    if (run.ok() || !absl::StrContains(run.status().message(), c.sample->run_error())) {
      failures.push_back(absl::StrCat(ChoiceName(choice), " kernel: expected an error with \"", c.sample->run_error(),
                                      "\", found ", run.status().ToString()));
    }
  }
  return failures;
}

Failures CheckInference(const ConformanceCase& c) {
  absl::StatusOr<Setup> setup = MakeSetup(c);
  if (!setup.ok()) return FailuresOf(setup.status(), {});
  Failures failures;
  const std::vector<ValueType>& outputs = setup->types.outputs;
  const std::vector<Port>& ports = c.op->outputs;
  const bool variadic = !ports.empty() && ports.back().variadic;
  if (variadic ? outputs.size() + 1 < ports.size() : outputs.size() != ports.size()) {
    failures.push_back(
        absl::StrCat("inference gave ", outputs.size(), " outputs, the op has ", ports.size(), " ports"));
  }
  const bool converts = c.op->traits.layout == LayoutRule::kConverts;
  int full_rank = 0;
  for (size_t i = 0; i < setup->types.inputs.size(); ++i) {
    if (setup->types.present[i]) full_rank = std::max(full_rank, setup->types.inputs[i].shape.rank());
  }
  for (size_t o = 0; o < outputs.size(); ++o) {
    const bool follows = outputs[o].shape.rank() == full_rank && !ports[std::min(o, ports.size() - 1)].plain_layout;
    if (!converts && outputs[o].layout.channels_last() != (follows && !c.layout.plain())) {
      failures.push_back(absl::StrCat("inference gave output ", o, " the layout of ", outputs[o].ToString(),
                                      ": expected that of the inputs of full rank"));
    }
    const PortType port = ports[std::min(o, ports.size() - 1)].type;
    const bool matches =
        port == PortType::kAny || (port == PortType::kFloating && IsFloating(outputs[o].dtype)) ||
        (port == PortType::kFloat32 &&
         outputs[o].dtype == (c.dtype == DType::kFloat64 ? DType::kFloat64 : DType::kFloat32)) ||
        (port == PortType::kBytes && outputs[o].dtype == DType::kUint8) ||
        (port == PortType::kInteger && (outputs[o].dtype == DType::kInt32 || outputs[o].dtype == DType::kInt64));
    if (!matches)
      failures.push_back(absl::StrCat("output ", o, " is ", outputs[o].ToString(), ": not what its port says"));
  }
  for (const Alias& alias : c.op->aliases) {
    const bool any_number = !c.op->inputs.empty() && c.op->inputs.back().variadic;
    const bool input_exists =
        alias.input >= 0 && (any_number || static_cast<size_t>(alias.input) < c.op->inputs.size());
    const bool output_exists = alias.kind == Alias::Kind::kMutates ||
                               (alias.output >= 0 && static_cast<size_t>(alias.output) < c.op->outputs.size());
    if (!input_exists || !output_exists) {
      failures.push_back(
          absl::StrCat("an alias names output ", alias.output, " and input ", alias.input, ": there is no such port"));
    }
  }
  return failures;
}

Failures CheckKernels(const OpRegistry& registry, const ConformanceCase& c) {
  Failures failures;
  for (const KernelChoice choice : {KernelChoice::kPlain, KernelChoice::kFast}) {
    if (choice == KernelChoice::kFast && (c.op->KernelsOn(Device::Kind::kCpu).size() < 2 || c.dtype == DType::kFloat64))
      continue;
    Failures found;
    const absl::Status status = CheckKernel(registry, c, choice, &found);
    found = FailuresOf(status, std::move(found));
    for (const std::string& failure : found) {
      failures.push_back(absl::StrCat(ChoiceName(choice), " kernel: ", failure));
    }
  }
  return failures;
}

Failures CheckResults(const OpRegistry& registry, const ConformanceCase& c) {
  Failures failures;
  const absl::Status status = CompareResults(registry, c, &failures);
  return FailuresOf(status, std::move(failures));
}

Failures CheckGradients(const OpRegistry& registry, const ConformanceCase& c) {
  if (c.op->gradient == nullptr) return {};
  if (c.dtype == DType::kFloat64) return CheckGradient(registry, *c.op, *c.sample, c.layout);
  Failures failures;
  const absl::Status status = CompareGradientChain(registry, c, {KernelChoice::kPlain, KernelChoice::kFast}, &failures);
  return FailuresOf(status, std::move(failures));
}

absl::Status RunCuda(const OpRegistry& registry, const ConformanceCase& c) {
  SNUG_ASSIGN_OR_RETURN(const Setup setup, MakeSetup(c));
  return RunOnce(registry, c, setup, KernelChoice::kCuda, 1).status();
}

Failures CheckCuda(const OpRegistry& registry, const ConformanceCase& c) {
  Failures failures;
  const auto note = [&](const absl::Status& status) {
    if (!status.ok()) failures.push_back(std::string(status.message()));
  };
  if (!c.op->KernelsOn(kOnCuda).empty()) {
    note(CheckKernel(registry, c, KernelChoice::kCuda, &failures));
    note(CompareCuda(registry, c, &failures));
    note(CompareCudaChoices(registry, c, &failures));
  }
  if (c.op->gradient != nullptr) {
    note(CompareGradientChain(registry, c, {KernelChoice::kCuda}, &failures));
  }
  return failures;
}

}  // namespace snug::core::test
