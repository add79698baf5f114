#include <algorithm>
#include <chrono>
#include <cstring>
#include <limits>
#include <memory>
#include <oneapi/dnnl/dnnl.hpp>
#include <unordered_map>

#include "bench/step_work.h"
#include "engine/base/parallel.h"

namespace snug::core::bench {
namespace {

using dnnl::memory;
using tag = memory::format_tag;

constexpr int kMinRuns = 5;
constexpr double kMinSeconds = 0.03;  // of all runs of one call

const dnnl::engine& CpuEngine() {
  static const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  return engine;
}

template <class Run>
double MedianSeconds(Run run) {
  using Clock = std::chrono::steady_clock;
  run();  // warms caches, and lets the library make its code
  std::vector<double> seconds;
  double total = 0;
  while (seconds.size() < kMinRuns || total < kMinSeconds) {
    const auto start = Clock::now();
    run();
    seconds.push_back(std::chrono::duration<double>(Clock::now() - start).count());
    total += seconds.back();
  }
  const auto middle = seconds.begin() + static_cast<std::ptrdiff_t>(seconds.size() / 2);
  std::nth_element(seconds.begin(), middle, seconds.end());
  return *middle;
}

// Pages of its own under it, and ordinary numbers in it: 0x3c3c... is 0.01 in float32 and in bfloat16.
memory Filled(const memory::desc& desc) {
  memory result(desc, CpuEngine());
  std::memset(result.get_data_handle(), 0x3c, desc.get_size());
  return result;
}

double Time(const dnnl::primitive& primitive, const std::vector<std::pair<int, memory::desc>>& arguments) {
  std::unordered_map<int, memory> memories;
  for (const auto& [id, desc] : arguments) memories.emplace(id, Filled(desc));
  dnnl::stream stream(CpuEngine());
  return MedianSeconds([&] {
    primitive.execute(stream, memories);
    stream.wait();
  });
}

memory::data_type DataType(DType dtype) {
  return dtype == DType::kBFloat16 ? memory::data_type::bf16 : memory::data_type::f32;
}

// ---- convolutions ----

struct ConvShapes {
  memory::dims src, weights, dst, strides, dilates, pad_begin, pad_end;
};

ConvShapes ShapesOf(const ops::ConvGeometry& g) {
  ConvShapes s;
  const auto numbers = [](const Shape& shape) { return memory::dims(shape.dims().begin(), shape.dims().end()); };
  s.src = numbers(g.input_shape());
  s.dst = numbers(g.output_shape());
  s.weights = numbers(g.weight_shape());
  if (g.groups > 1) {
    s.weights[0] /= g.groups;
    s.weights.insert(s.weights.begin(), g.groups);
  }
  for (size_t i = 0; i < static_cast<size_t>(g.spatial); ++i) {
    s.strides.push_back(g.stride[i]);
    s.dilates.push_back(g.dilation[i] - 1);
    s.pad_begin.push_back(g.pad_begin[i]);
    s.pad_end.push_back(g.pad_end[i]);
  }
  return s;
}

constexpr auto kAlgorithm = dnnl::algorithm::convolution_direct;

// oneDNN 3 folded the operation's description into the primitive's.
#if DNNL_VERSION_MAJOR >= 3
template <class Primitive>
typename Primitive::primitive_desc Describe(const ConvShapes& s, const memory::desc& a, const memory::desc& b,
                                            const memory::desc& c,
                                            const dnnl::convolution_forward::primitive_desc* forward) {
  if constexpr (std::is_same_v<Primitive, dnnl::convolution_forward>) {
    return {CpuEngine(), dnnl::prop_kind::forward_training, kAlgorithm, a, b, c, s.strides, s.dilates, s.pad_begin,
            s.pad_end};
  } else {
    return {CpuEngine(), kAlgorithm, a, b, c, s.strides, s.dilates, s.pad_begin, s.pad_end, *forward};
  }
}
#else
template <class Primitive>
typename Primitive::primitive_desc Describe(const ConvShapes& s, const memory::desc& a, const memory::desc& b,
                                            const memory::desc& c,
                                            const dnnl::convolution_forward::primitive_desc* forward) {
  if constexpr (std::is_same_v<Primitive, dnnl::convolution_forward>) {
    return {{dnnl::prop_kind::forward_training, kAlgorithm, a, b, c, s.strides, s.dilates, s.pad_begin, s.pad_end},
            CpuEngine()};
  } else {
    return {{kAlgorithm, a, b, c, s.strides, s.dilates, s.pad_begin, s.pad_end}, CpuEngine(), *forward};
  }
}
#endif

double ConvSeconds(const LibraryCall& call, tag layout) {
  const ConvShapes s = ShapesOf(call.conv);
  const memory::data_type type = DataType(call.dtype);
  const memory::desc src(s.src, type, layout), dst(s.dst, type, layout), weights(s.weights, type, tag::any);
  const auto forward = Describe<dnnl::convolution_forward>(s, src, weights, dst, nullptr);
  switch (call.kind) {
    case LibraryCall::Kind::kConvBackwardData: {
      const auto pd = Describe<dnnl::convolution_backward_data>(s, src, weights, dst, &forward);
      return Time(dnnl::convolution_backward_data(pd), {{DNNL_ARG_DIFF_SRC, pd.diff_src_desc()},
                                                        {DNNL_ARG_WEIGHTS, pd.weights_desc()},
                                                        {DNNL_ARG_DIFF_DST, pd.diff_dst_desc()}});
    }
    case LibraryCall::Kind::kConvBackwardWeights: {
      const auto pd = Describe<dnnl::convolution_backward_weights>(s, src, weights, dst, &forward);
      return Time(dnnl::convolution_backward_weights(pd), {{DNNL_ARG_SRC, pd.src_desc()},
                                                           {DNNL_ARG_DIFF_WEIGHTS, pd.diff_weights_desc()},
                                                           {DNNL_ARG_DIFF_DST, pd.diff_dst_desc()}});
    }
    default:
      return Time(dnnl::convolution_forward(forward), {{DNNL_ARG_SRC, forward.src_desc()},
                                                       {DNNL_ARG_WEIGHTS, forward.weights_desc()},
                                                       {DNNL_ARG_DST, forward.dst_desc()}});
  }
}

// ---- matrix products ----

double MatMulSeconds(const LibraryCall& call, bool any) {
  const memory::data_type type = DataType(call.dtype);
  const bool batched = call.batch > 1;
  const auto dims = [&](int64_t rows, int64_t columns) {
    return batched ? memory::dims{call.batch, rows, columns} : memory::dims{rows, columns};
  };
  const auto desc = [&](int64_t rows, int64_t columns, bool transposed) {
    const tag row_major = batched ? tag::abc : tag::ab;
    const tag column_major = batched ? tag::acb : tag::ba;
    return memory::desc(dims(rows, columns), type, any ? tag::any : transposed ? column_major : row_major);
  };
  const memory::desc a = desc(call.m, call.k, call.transpose_a);
  const memory::desc b = desc(call.k, call.n, call.transpose_b);
  const memory::desc c = desc(call.m, call.n, false);
#if DNNL_VERSION_MAJOR >= 3
  const dnnl::matmul::primitive_desc pd(CpuEngine(), a, b, c);
#else
  const dnnl::matmul::primitive_desc pd({a, b, c}, CpuEngine());
#endif
  return Time(dnnl::matmul(pd),
              {{DNNL_ARG_SRC, pd.src_desc()}, {DNNL_ARG_WEIGHTS, pd.weights_desc()}, {DNNL_ARG_DST, pd.dst_desc()}});
}

}  // namespace

double BestSeconds(const LibraryCall& call, int threads) {
  SetThreadsPerOp(threads);
  if (call.kind == LibraryCall::Kind::kMatMul) return std::min(MatMulSeconds(call, false), MatMulSeconds(call, true));
  constexpr tag kChannelsLast[] = {tag::nwc, tag::nhwc, tag::ndhwc};
  return std::min(ConvSeconds(call, kChannelsLast[call.conv.spatial - 1]), ConvSeconds(call, tag::any));
}

}  // namespace snug::core::bench
