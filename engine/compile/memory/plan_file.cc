#include "engine/compile/memory/plan_file.h"

#include <absl/strings/str_cat.h>
#include <absl/strings/str_join.h>

#include <algorithm>
#include <chrono>
#include <unordered_map>
#include <utility>

#include "engine/base/hash.h"
#include "engine/base/status.h"
#include "engine/compile/memory/plan_memory.h"
#include "engine/compile/message_file.h"
#include "engine/compile/pipeline.h"
#include "engine/graph/graph.h"
#include "memory/verifier.h"
#include "proto/plan.pb.h"

namespace snug::core {
namespace {

uint64_t HashOfKernels(const Compiled& compiled) {
  std::string text;
  for (const NodeId id : compiled.tasks.node_of_task) {
    const KernelChoice& choice = compiled.kernels[static_cast<size_t>(id.index)];
    absl::StrAppend(&text, compiled.graph.node(id).name, choice.fast() ? " fast " : " plain ", choice.choice, " ",
                    choice.workspace_bytes, "\n");
  }
  return HashName(text);
}

uint64_t Checksum(proto::Plan plan) {
  plan.clear_checksum();
  return HashName(plan.SerializeAsString());  // without maps and unknown fields the bytes are always the same
}

// Describes what the plan is for.
proto::Plan Describe(const Compiled& compiled) {
  proto::Plan plan;
  plan.set_network(compiled.graph.name);
  plan.set_batch(compiled.batch);
  plan.set_training(compiled.training);
  plan.set_precision(std::string(Name(compiled.precision)));
  plan.set_threads(compiled.threads);
  plan.set_device(compiled.device.kind == Device::Kind::kCpu ? "cpu" : "cuda");  // the plan is right for every GPU, so
                                                                                 // no number
  plan.set_alignment(compiled.device.alignment());
  plan.set_keep_inputs(compiled.keep_inputs);
  for (const CallerValue& one : compiled.bound) plan.add_bound(one.name);
  plan.set_graph_hash(HashName(ToText(compiled.graph)));
  plan.set_kernels_hash(HashOfKernels(compiled));
  return plan;
}

absl::Status Differs(absl::string_view what, absl::string_view of_plan, absl::string_view of_network) {
  return absl::InvalidArgumentError(
      absl::StrCat("the plan is for another ", what, ": ", of_plan, ", here it is ", of_network));
}

absl::Status CheckMadeFor(const proto::Plan& plan, const proto::Plan& here) {
  const auto mode = [](bool training) { return training ? "training" : "forward only"; };
  const auto inputs = [](bool keep) { return keep ? "inputs are kept" : "inputs are consumed"; };
  if (plan.network() != here.network()) return Differs("network", plan.network(), here.network());
  if (plan.training() != here.training()) return Differs("mode", mode(plan.training()), mode(here.training()));
  if (plan.batch() != here.batch()) return Differs("batch", absl::StrCat(plan.batch()), absl::StrCat(here.batch()));
  if (plan.precision() != here.precision()) return Differs("precision", plan.precision(), here.precision());
  if (plan.device() != here.device()) return Differs("device", plan.device(), here.device());
  if (plan.alignment() != here.alignment()) {
    return Differs("alignment", absl::StrCat(plan.alignment()), absl::StrCat(here.alignment()));
  }
  if (plan.threads() != here.threads()) {
    return Differs("number of threads per op", absl::StrCat(plan.threads()), absl::StrCat(here.threads()));
  }
  if (plan.keep_inputs() != here.keep_inputs()) {
    return Differs("treatment of inputs", inputs(plan.keep_inputs()), inputs(here.keep_inputs()));
  }
  const auto bound = [](const proto::Plan& p) { return p.bound().empty() ? "none" : absl::StrJoin(p.bound(), ", "); };
  if (bound(plan) != bound(here)) return Differs("set of bound buffers", bound(plan), bound(here));
  if (plan.graph_hash() != here.graph_hash()) {
    return Differs(
        "graph", absl::StrCat(absl::Hex(plan.graph_hash())),
        absl::StrCat(absl::Hex(here.graph_hash()),
                     " (hashes of the graph after passes: the model file, the optimizer, the passes, what is "
                     "fetched, or in bfloat16 the kernels, which are this processor's and the tuning's, changed)"));
  }
  if (plan.kernels_hash() != here.kernels_hash()) {
    return Differs("choice of kernels", absl::StrCat(absl::Hex(plan.kernels_hash())),
                   absl::StrCat(absl::Hex(here.kernels_hash()),
                                " (hashes: another processor or another version of the libraries)"));
  }
  return absl::OkStatus();
}

using BufferList = google::protobuf::RepeatedPtrField<proto::PlannedBuffer>;

void Write(const memory::Problem& problem, const memory::Plan& plan, bool lifetimes, BufferList* list) {
  for (size_t i = 0; i < problem.buffers.size(); ++i) {
    const memory::Buffer& buffer = problem.buffers[i];
    proto::PlannedBuffer* const out = list->Add();
    out->set_name(buffer.name);
    out->set_bytes(buffer.size_bytes);
    out->set_offset(plan.offsets[i]);
    if (!lifetimes) continue;
    out->set_first(buffer.first);
    out->set_last(buffer.last);
  }
}

absl::StatusOr<memory::Plan> Read(const memory::Problem& problem, bool lifetimes, const BufferList& list,
                                  int64_t arena_bytes, absl::string_view kind) {
  if (static_cast<size_t>(list.size()) != problem.buffers.size()) {
    return Differs(absl::StrCat("number of ", kind, "s"), absl::StrCat(list.size()),
                   absl::StrCat(problem.buffers.size()));
  }
  memory::Plan plan{.arena_bytes = arena_bytes};
  for (size_t i = 0; i < problem.buffers.size(); ++i) {
    const memory::Buffer& buffer = problem.buffers[i];
    const proto::PlannedBuffer& in = list[static_cast<int>(i)];
    const auto text = [lifetimes](absl::string_view name, int64_t bytes, int32_t first, int32_t last) {
      return absl::StrCat("\"", name, "\" of ", bytes, " bytes",
                          lifetimes ? absl::StrCat(", live ", first, " to ", last) : "");
    };
    const std::string expected = text(buffer.name, buffer.size_bytes, buffer.first, buffer.last);
    const std::string found = text(in.name(), in.bytes(), in.first(), in.last());
    if (found != expected) return Differs(absl::StrCat(kind, " ", i), found, expected);
    plan.offsets.push_back(in.offset());
  }
  SNUG_RETURN_IF_ERROR(memory::Verify(problem, plan));
  return plan;
}

absl::StatusOr<memory::TaskOrder> ReadOrder(const memory::Tasks& tasks, const proto::Plan& plan) {
  std::unordered_map<std::string, int32_t> task_named;
  for (int32_t t = 0; t < tasks.size(); ++t) task_named[tasks.names[static_cast<size_t>(t)]] = t;
  memory::TaskOrder order;
  for (const std::string& node : plan.node()) {
    const auto it = task_named.find(node);
    if (it == task_named.end()) {
      return absl::InvalidArgumentError(absl::StrCat("the plan runs node \"", node, "\", which this network lacks"));
    }
    order.push_back(it->second);
  }
  SNUG_RETURN_IF_ERROR(memory::CheckOrder(tasks, order));
  return order;
}

absl::StatusOr<MemoryPlan> FromProto(const Compiled& compiled, const proto::Plan& file) {
  SNUG_RETURN_IF_ERROR(CheckMadeFor(file, Describe(compiled)));
  const StepTasks& tasks = compiled.tasks;
  MemoryPlan plan{.strategy = file.strategy(), .state_problem = tasks.state};
  SNUG_ASSIGN_OR_RETURN(plan.state_plan,
                        Read(tasks.state, /*lifetimes=*/false, file.variable(), file.state_bytes(), "variable"));
  SNUG_ASSIGN_OR_RETURN(plan.step.order, ReadOrder(tasks.tasks, file));
  plan.step.problem = memory::LifetimesOf(tasks.tasks, plan.step.order);
  SNUG_ASSIGN_OR_RETURN(plan.step.placement.plan,
                        Read(plan.step.problem, /*lifetimes=*/true, file.buffer(), file.step_bytes(), "buffer"));
  plan.step.placement.report = {.lower_bound = file.lower_bound(), .proven = file.proven()};
  plan.step.ordered = file.ordered();
  if (file.checksum() != Checksum(file)) {
    return absl::InvalidArgumentError("the plan was changed after it was written: its checksum does not fit");
  }
  return plan;
}

absl::StatusOr<proto::Plan> Read(const std::string& path) {
  proto::Plan file;
  SNUG_RETURN_IF_ERROR(ReadMessageFile(path, "a plan", "snug plan", &file));
  return file;
}

}  // namespace

absl::StatusOr<std::string> StrategyOfPlan(const std::string& path) {
  SNUG_ASSIGN_OR_RETURN(const proto::Plan file, Read(path));
  return file.strategy().substr(0, file.strategy().find('+'));
}

absl::Status SavePlan(const Compiled& compiled, const std::string& path) {
  if (compiled.executable.memory.dynamic.has_value()) {
    return absl::InvalidArgumentError("dynamic memory has no plan to save; name a strategy that plans");
  }
  const MemoryPlan& plan = compiled.executable.memory;
  proto::Plan file = Describe(compiled);
  file.set_strategy(plan.strategy);
  file.set_lower_bound(plan.step.placement.report.lower_bound);
  file.set_proven(plan.step.placement.report.proven);
  file.set_ordered(plan.step.ordered);
  file.set_state_bytes(plan.state_plan.arena_bytes);
  file.set_step_bytes(plan.step.placement.plan.arena_bytes);
  Write(plan.state_problem, plan.state_plan, /*lifetimes=*/false, file.mutable_variable());
  for (const int32_t task : plan.step.order) file.add_node(compiled.tasks.tasks.names[static_cast<size_t>(task)]);
  Write(plan.step.problem, plan.step.placement.plan, /*lifetimes=*/true, file.mutable_buffer());
  file.set_checksum(Checksum(file));

  return WriteMessageFile(path, file);
}

absl::StatusOr<MemoryPlan> LoadPlan(const Compiled& compiled, const std::string& path) {
  const auto begin = std::chrono::steady_clock::now();
  SNUG_ASSIGN_OR_RETURN(const proto::Plan file, Read(path));
  absl::StatusOr<MemoryPlan> plan = FromProto(compiled, file);
  if (!plan.ok()) return Annotate(plan.status(), path);
  plan->seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return plan;
}

}  // namespace snug::core
