#include "ops/kernels/conv/cuda.h"

#include "engine/base/status.h"
#include "ops/kit/library_variant.h"

namespace snug::core::ops {

KernelRow OwnCudaConvRow(ConvPart part, DescribeConv describe) {
  return {.device = kOnCuda,
          .name = "own",
          .prepare = [part, describe](PrepareContext& c) -> absl::Status {
            SNUG_RETURN_IF_ERROR(TakeOwnBesideLibrary(c));
            const ConvGeometry g = describe(c.types()).geometry;
            const DType dtype = c.types().output(0).dtype;
            c.SetWorkspaceBytes(part == ConvPart::kForward     ? OwnConvWorkspace(g, dtype)
                                : part == ConvPart::kGradInput ? OwnConvGradInputWorkspace(g, dtype)
                                                               : OwnConvGradWeightWorkspace(g, dtype));
            return absl::OkStatus();
          },
          .run = [part, describe](const KernelContext& k) -> absl::Status {
            const ConvNode node = describe(k.types());
            if (part == ConvPart::kForward) return OwnConvCuda(k, node.geometry, node.activation);
            return part == ConvPart::kGradInput ? OwnConvGradInputCuda(k, node.geometry)
                                                : OwnConvGradWeightCuda(k, node.geometry);
          }};
}

}  // namespace snug::core::ops
