#include "tests/cuda/host_kernels.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine/base/status.h"
#include "engine/cuda/cuda_launch.h"
#include "ops/kernel_context.h"
#include "tests/testing/kernel_of.h"

namespace snug::core {
namespace {

constexpr absl::string_view kHostKernel = "host";

struct HostKernel {
  cuda::FakeCuda* fake;
  std::string op;
  KernelFn plain;
  std::shared_ptr<const void> prepared;
};

absl::Status RunOnHost(const KernelContext& k) {
  const auto& kernel = k.prepared<HostKernel>();
  std::vector<void*> inputs, outputs;
  for (int i = 0; i < k.num_inputs(); ++i) inputs.push_back(k.variable<void>(i));
  for (int i = 0; i < k.num_outputs(); ++i) outputs.push_back(k.output<void>(i));
  return kernel.fake->Run(
      k.cuda()->stream().handle(), kernel.op,
      [inputs, outputs, &kernel, types = &k.types(), workspace = k.workspace(), random = k.random_id()] {
        SNUG_CHECK_OK(kernel.plain(KernelContext(types, inputs, outputs, workspace, kernel.prepared.get(), 1, random)));
      });
}

}  // namespace

const OpRegistry& OpsWithHostKernels() {
  static const auto* const registry = [] {
    auto* made = new OpRegistry();
    const OpRegistry& builtin = OpRegistry::Builtin();
    for (const OpDef* op : builtin.all()) {
      const PrepareFn prepare = op->plain() != nullptr ? op->plain()->prepare : nullptr;
      const OpDef on_host =
          test::WithKernel(*op, {.device = kOnCuda, .name = kHostKernel, .prepare = prepare, .run = RunOnHost});
      SNUG_CHECK_OK(made->AddAll(builtin.file_of(op->name), {on_host}));
    }
    return made;
  }();
  return *registry;
}

void UseHostKernels(cuda::FakeCuda& fake, Compiled* compiled) {
  for (Step& step : compiled->executable.steps) {
    const std::string& op = compiled->graph.node(step.node).op;
    SNUG_CHECK_MSG(step.kernel->name == kHostKernel, op);
    step.prepared = std::make_shared<HostKernel>(
        HostKernel{&fake, op, OpRegistry::Builtin().Get(op).plain()->run, std::move(step.prepared)});
  }
}

absl::StatusOr<Compiled> CompileForFake(const LoadedNetwork& loaded, const How& how, cuda::FakeCuda& fake) {
  CompileOptions options = OptionsOf(how);
  options.device = {Device::Kind::kCuda};
  SNUG_ASSIGN_OR_RETURN(Compiled compiled, Compile(loaded.network, loaded.source_map, OpsWithHostKernels(), options));
  UseHostKernels(fake, &compiled);
  return compiled;
}

std::shared_ptr<const cuda::CudaDevice> OpenFake(const cuda::FakeCuda& fake) {
  return cuda::CudaDevice::Open(fake.api(), 0).value();
}

}  // namespace snug::core
