#include "ops/kernels/activation/onednn_activated.h"

#include <utility>

#include "engine/base/status.h"
#include "ops/kernels/activation/in_place.h"
#include "ops/kit/dispatch.h"

namespace snug::core::onednn {
namespace {

class ActivatedKernel final : public Kernel {
 public:
  ActivatedKernel(KernelPtr kernel, Activation activation, DType dtype, int64_t count, int threads)
      : Kernel(kernel->workspace_bytes()),
        kernel_(std::move(kernel)),
        activation_(activation),
        dtype_(dtype),
        count_(count),
        threads_(threads) {}

  const char* implementation() const override { return kernel_->implementation(); }

  absl::Status Run(absl::Span<const void* const> arguments, void* workspace) const override {
    SNUG_RETURN_IF_ERROR(kernel_->Run(arguments, workspace));
    return DispatchFloating(dtype_, [&](auto zero) {
      using T = decltype(zero);
      ActivateInPlace(threads_, count_, activation_, static_cast<T*>(const_cast<void*>(arguments.back())));
      return absl::OkStatus();
    });
  }

 private:
  KernelPtr kernel_;
  Activation activation_;
  DType dtype_;
  int64_t count_;
  int threads_;
};

}  // namespace

KernelPtr Activated(KernelPtr kernel, Activation activation, DType dtype, int64_t count, int threads) {
  if (kernel == nullptr || activation == Activation::kIdentity) return kernel;
  return std::make_shared<ActivatedKernel>(std::move(kernel), activation, dtype, count, threads);
}

}  // namespace snug::core::onednn
