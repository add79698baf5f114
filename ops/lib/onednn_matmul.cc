#include "ops/lib/onednn_matmul.h"

#include <cstring>

#include "ops/lib/onednn_internal.h"

namespace snug::onednn {
namespace {

using dnnl::memory;

// The stored [rows, columns] of each product, seen transposed where asked. A broadcast batch axis (stride 0) has length
// 1, and the stride that keeps the description dense: the fast kernels want it so.
memory::desc Operand(const MatMulNode& node, const Strides& batch_strides, int64_t rows, int64_t columns,
                     bool transposed, DType dtype) {
  const size_t rank = static_cast<size_t>(node.batch.rank());
  memory::dims dims(rank + 2), strides(rank + 2);
  dims[rank] = rows;
  dims[rank + 1] = columns;
  strides[rank] = transposed ? 1 : columns;
  strides[rank + 1] = transposed ? rows : 1;
  memory::dim matrices = 1;
  for (size_t axis = rank; axis-- > 0;) {
    const bool broadcast = batch_strides[axis] == 0;
    dims[axis] = broadcast ? 1 : node.batch[static_cast<int>(axis)];
    strides[axis] = broadcast ? rows * columns * matrices : batch_strides[axis];
    matrices *= dims[axis];
  }
  return memory::desc(dims, DataType(dtype), strides);
}

dnnl::primitive_attr Attributes(Activation activation) {
  dnnl::primitive_attr attributes = UserScratchpad();
  dnnl::algorithm algorithm = dnnl::algorithm::undef;
  float beta = 0;
  switch (activation) {
    case Activation::kIdentity:
      return attributes;
    case Activation::kRelu:
      algorithm = dnnl::algorithm::eltwise_relu;
      break;
    case Activation::kRelu6:
      algorithm = dnnl::algorithm::eltwise_clip;
      beta = 6;
      break;
    case Activation::kSigmoid:
      algorithm = dnnl::algorithm::eltwise_logistic;
      break;
    case Activation::kTanh:
      algorithm = dnnl::algorithm::eltwise_tanh;
      break;
  }
  dnnl::post_ops after;
#if DNNL_VERSION_MAJOR >= 3
  after.append_eltwise(algorithm, 0.0F, beta);
#else
  after.append_eltwise(1.0F, algorithm, 0.0F, beta);
#endif
  attributes.set_post_ops(after);
  return attributes;
}

bool Is(const dnnl::matmul::primitive_desc& pd, const char* prefix) {
  return std::strncmp(pd.impl_info_str(), prefix, std::strlen(prefix)) == 0;
}

}  // namespace

absl::StatusOr<KernelPtr> MakeMatMul(const MatMulNode& node, DType dtype, int threads) {
  return Guard([&]() -> absl::StatusOr<KernelPtr> {
    if (!DimsFit(node.batch.num_elements(), node.m, node.k, node.n)) {
      return absl::UnimplementedError("oneDNN has no such large dimensions");
    }
    const ThreadScope scope(threads);
    const memory::desc a = Operand(node, node.a_batch, node.m, node.k, node.transpose_a, dtype);
    const memory::desc b = Operand(node, node.b_batch, node.k, node.n, node.transpose_b, dtype);
    memory::dims dims = Dims(node.batch);
    if (node.batch.rank() == 0) dims.clear();
    dims.insert(dims.end(), {node.m, node.n});
    const memory::desc c = DescribePlain(dims, dtype);
    memory::desc bias;
    if (node.bias >= 0) {
      memory::dims bias_dims(dims.size(), 1);
      bias_dims.back() = node.n;
      bias = DescribePlain(bias_dims, dtype);
    }
    const dnnl::primitive_attr attributes = Attributes(node.activation);
    const auto first = [&] {
#if DNNL_VERSION_MAJOR >= 3
      return dnnl::matmul::primitive_desc(CpuEngine(), a, b, bias, c, attributes);
#else
      return dnnl::matmul::primitive_desc(dnnl::matmul::desc(a, b, bias, c), attributes, CpuEngine());
#endif
    };
    // The batch-reduced kernels take their buffers from the scratchpad; the older "gemm" ones allocate up to megabytes
    // at every call, so they serve only where ("brg" needs AVX-512) there is nothing else.
    dnnl::matmul::primitive_desc pd = first();
    while (!Is(pd, "brg")) {
      if (pd.next_impl()) continue;
      pd = first();
      if (Is(pd, "ref")) return absl::UnimplementedError("oneDNN has only a reference kernel for this");
      break;
    }
    std::vector<Argument> arguments = {{DNNL_ARG_SRC, a}, {DNNL_ARG_WEIGHTS, b}};
    if (node.bias >= 0) arguments.push_back({DNNL_ARG_BIAS, bias});
    arguments.push_back({DNNL_ARG_DST, c});
    return MakeKernel(pd, dnnl::matmul(pd), arguments, threads);
  });
}

}  // namespace snug::onednn
