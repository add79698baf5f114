// Does what a finished graph of the pretended cuDNN says, on the host.
#pragma once

#include "tests/cuda/cudnn/operations.h"

namespace snug::core::cuda::fake_cudnn {

// `given`: where the tensors lie that are the caller's, by their ids. `rounds`: factors lose what TF32 has not.
void Interpret(const Program& program, const std::map<int64_t, void*>& given, bool rounds);

}  // namespace snug::core::cuda::fake_cudnn
