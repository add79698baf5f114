#include "engine/cuda/cudnn_attention.h"

#include <absl/strings/str_cat.h>

#include <cstddef>
#include <limits>
#include <utility>
#include <vector>

#include "engine/base/status.h"
#include "engine/cuda/cudnn_graph.h"

namespace snug::core::cuda {
namespace {

int64_t RoundUp(int64_t n, int64_t to) { return (n + to - 1) / to * to; }

// What is kept of each query in float32 between the parts of the backward pass, in bytes.
int64_t SumBytes(const CudnnAttention& a, int64_t samples) { return RoundUp(samples * a.heads * a.queries * 4, 256); }

}  // namespace

std::string Describe(const CudnnAttention& a) {
  return absl::StrCat(a.backward ? "the gradient of " : "", a.causal ? "causal " : "", "attention of [", a.batch, ", ",
                      a.heads, ", ", a.queries, ", ", a.width, "] to ", a.keys, " keys in bfloat16");
}

// Deterministic engines keep the gradient of all scores in bfloat16, in blocks of 64 queries and 128 keys.
CudnnAttentionGroup GroupWithin(const CudnnAttention& a, int64_t workspace_bytes) {
  constexpr int64_t kSome = 4096;  // what engines take beside
  const auto bytes = [&](int64_t samples) {
    if (!a.backward) return kSome;
    return SumBytes(a, samples) + samples * a.heads * RoundUp(a.queries, 128) * RoundUp(a.keys, 128) * 2 + kSome;
  };
  CudnnAttentionGroup group{a.batch, bytes(a.batch)};
  for (int64_t groups = 2; groups <= a.batch && group.workspace_bytes > workspace_bytes; ++groups) {
    const int64_t samples = a.batch / groups;
    const bool begins_well = samples * a.heads * a.queries % 4 == 0;  // its lse, at a multiple of 16 bytes
    if (a.batch % groups == 0 && begins_well) group = {samples, bytes(samples)};
  }
  return group;
}

#if SNUG_HAS_CUDNN

namespace {

enum AttentionUid : int64_t { kQ = 1, kK, kV, kOut, kLse, kDOut, kDq, kDk, kDv, kScale, kLowest, kOne, kSum };

constexpr float kNothing = -std::numeric_limits<float>::infinity();
constexpr float kUnit = 1;

// Adds to a graph what forward and backward have in common.
class Describer {
 public:
  Describer(const Api& api, const CudnnAttention& a)
      : a_(a),
        samples_(GroupWithin(a, a.workspace_bytes).samples),
        graph_(std::make_shared<CudnnGraph>(api, Describe(a))) {}

  CudnnGraph& graph() { return *graph_; }
  std::shared_ptr<CudnnGraph> Take() { return std::move(graph_); }

  // [samples, heads, length, width] in memory.
  CudnnTensor Operand(AttentionUid uid, int64_t length, const CudnnHeads& at) {
    return graph_->InMemory(uid, CUDNN_DATA_BFLOAT16, {samples_, a_.heads, length, a_.width},
                            {at.batch, at.head, at.row, 1});
  }
  // The same with its last two dimensions exchanged.
  CudnnTensor Transposed(AttentionUid uid, int64_t length, const CudnnHeads& at) {
    return graph_->InMemory(uid, CUDNN_DATA_BFLOAT16, {samples_, a_.heads, a_.width, length},
                            {at.batch, at.head, 1, at.row});
  }
  // [samples, heads, queries, keys] between operations.
  CudnnTensor Scores(cudnnDataType_t type) {
    return graph_->Virtual(type, {samples_, a_.heads, a_.queries, a_.keys},
                           {a_.heads * a_.queries * a_.keys, a_.queries * a_.keys, a_.keys, 1});
  }
  // Returns [samples, heads, keys, queries] with those numbers.
  CudnnTensor OtherWayRound(const CudnnTensor& scores) {
    CudnnTensor turned = graph_->Virtual(CUDNN_DATA_BFLOAT16, {samples_, a_.heads, a_.keys, a_.queries},
                                         {a_.heads * a_.queries * a_.keys, a_.queries * a_.keys, 1, a_.keys});
    graph_->Reshape(scores, turned);
    return turned;
  }
  // One float32 for each query.
  CudnnTensor PerQuery() { return graph_->Virtual(CUDNN_DATA_FLOAT, QueryDims(), QueryStrides()); }
  CudnnTensor PerQuery(AttentionUid uid) {
    return graph_->InMemory(uid, CUDNN_DATA_FLOAT, QueryDims(), QueryStrides());
  }

  CudnnTensor Do(cudnnPointwiseMode_t mode, const CudnnTensor& x, const CudnnTensor* b = nullptr) {
    CudnnTensor y = graph_->Virtual(CUDNN_DATA_FLOAT, x.dims, x.strides);
    graph_->Pointwise(mode, CUDNN_DATA_FLOAT, y, x, b);
    return y;
  }

  // Returns scale q k^T.
  CudnnTensor ScaledScores(const CudnnTensor& q, const CudnnTensor& k_transposed, const CudnnTensor& scale) {
    const CudnnTensor scores = Scores(CUDNN_DATA_FLOAT);
    graph_->MatMul(q, k_transposed, scores);
    return Do(CUDNN_POINTWISE_MUL, scores, &scale);
  }
  // Returns the scores where query >= key, and nothing elsewhere.
  CudnnTensor Masked(const CudnnTensor& scores) {
    if (!a_.causal) return scores;
    const CudnnTensor query = Scores(CUDNN_DATA_INT32);
    const CudnnTensor key = Scores(CUDNN_DATA_INT32);
    graph_->GenerateIndex(2, query, scores);
    graph_->GenerateIndex(3, key, scores);
    const CudnnTensor sees = Scores(CUDNN_DATA_BOOLEAN);
    graph_->Pointwise(CUDNN_POINTWISE_CMP_GE, CUDNN_DATA_BOOLEAN, sees, query, &key);
    const CudnnTensor nothing = graph_->Scalar(kLowest, 4);
    CudnnTensor masked = Scores(CUDNN_DATA_FLOAT);
    graph_->Pointwise(CUDNN_POINTWISE_BINARY_SELECT, CUDNN_DATA_FLOAT, masked, scores, &nothing, &sees);
    return masked;
  }

 private:
  CudnnDims QueryDims() const { return {samples_, a_.heads, a_.queries, 1}; }
  CudnnDims QueryStrides() const { return {a_.heads * a_.queries, a_.queries, 1, 1}; }

  const CudnnAttention& a_;
  const int64_t samples_;
  std::shared_ptr<CudnnGraph> graph_;
};

std::shared_ptr<CudnnGraph> ForwardGraph(const Api& api, const CudnnAttention& a) {
  Describer d(api, a);
  CudnnGraph& graph = d.graph();
  const CudnnTensor q = d.Operand(kQ, a.queries, a.q);
  const CudnnTensor k = d.Transposed(kK, a.keys, a.k);
  const CudnnTensor v = d.Operand(kV, a.keys, a.v);
  const CudnnTensor out = d.Operand(kOut, a.queries, a.out);
  const CudnnTensor scores = d.Masked(d.ScaledScores(q, k, graph.Scalar(kScale, 4)));
  // The softmax, in the form that the library looks for.
  const CudnnTensor largest = d.PerQuery();
  graph.Reduce(CUDNN_REDUCE_TENSOR_MAX, scores, largest);
  const CudnnTensor exponentials = d.Do(CUDNN_POINTWISE_EXP, d.Do(CUDNN_POINTWISE_SUB, scores, &largest));
  const CudnnTensor sum = d.PerQuery();
  graph.Reduce(CUDNN_REDUCE_TENSOR_ADD, exponentials, sum);
  const CudnnTensor logarithm = d.Do(CUDNN_POINTWISE_LOG, sum);
  graph.Pointwise(CUDNN_POINTWISE_ADD, CUDNN_DATA_FLOAT, d.PerQuery(kLse), largest, &logarithm);
  const CudnnTensor probabilities = d.Scores(CUDNN_DATA_BFLOAT16);
  graph.Pointwise(CUDNN_POINTWISE_DIV, CUDNN_DATA_FLOAT, probabilities, exponentials, &sum);
  graph.MatMul(probabilities, v, out);
  return d.Take();
}

std::shared_ptr<CudnnGraph> BackwardGraph(const Api& api, const CudnnAttention& a) {
  Describer d(api, a);
  CudnnGraph& graph = d.graph();
  const CudnnTensor q = d.Operand(kQ, a.queries, a.q);
  const CudnnTensor k = d.Transposed(kK, a.keys, a.k);
  const CudnnTensor v = d.Transposed(kV, a.keys, a.v);
  const CudnnTensor out = d.Operand(kOut, a.queries, a.out);
  const CudnnTensor dout = d.Operand(kDOut, a.queries, a.out);
  const CudnnTensor lse = d.PerQuery(kLse);
  const CudnnTensor scale = graph.Scalar(kScale, 4);
  const CudnnTensor one = graph.Scalar(kOne, 4);
  // The sum over the width of dout * out, which the library wants kept in memory.
  const CudnnTensor products =
      graph.Virtual(CUDNN_DATA_FLOAT, dout.dims, {a.heads * a.queries * a.width, a.queries * a.width, a.width, 1});
  graph.Pointwise(CUDNN_POINTWISE_MUL, CUDNN_DATA_FLOAT, products, dout, &out);
  const CudnnTensor total = d.PerQuery();
  graph.Reduce(CUDNN_REDUCE_TENSOR_ADD, products, total);
  const CudnnTensor sum = d.PerQuery(kSum);
  graph.Pointwise(CUDNN_POINTWISE_MUL, CUDNN_DATA_FLOAT, sum, total, &one);
  // The probabilities once more, and the gradient of v.
  const CudnnTensor scores = d.ScaledScores(q, k, scale);
  const CudnnTensor probabilities = d.Do(CUDNN_POINTWISE_EXP, d.Masked(d.Do(CUDNN_POINTWISE_SUB, scores, &lse)));
  graph.MatMul(d.OtherWayRound(probabilities), dout, d.Operand(kDv, a.keys, a.v));
  // The gradient of the scores, and those of k and q.
  const CudnnTensor back = d.Scores(CUDNN_DATA_FLOAT);
  graph.MatMul(dout, v, back);
  const CudnnTensor differences = d.Do(CUDNN_POINTWISE_SUB, back, &sum);
  const CudnnTensor unscaled = d.Do(CUDNN_POINTWISE_MUL, differences, &probabilities);
  const CudnnTensor dscores = d.Scores(CUDNN_DATA_BFLOAT16);
  graph.Pointwise(CUDNN_POINTWISE_MUL, CUDNN_DATA_FLOAT, dscores, unscaled, &scale);
  graph.MatMul(d.OtherWayRound(dscores), q, d.Operand(kDk, a.keys, a.k));
  const CudnnTensor keys = graph.Virtual(CUDNN_DATA_BFLOAT16, {k.dims[0], k.dims[1], k.dims[3], k.dims[2]},
                                         {k.strides[0], k.strides[1], k.strides[3], k.strides[2]});
  graph.Reshape(k, keys);
  graph.MatMul(dscores, keys, d.Operand(kDq, a.queries, a.q));
  return d.Take();
}

// Returns the address of a sample's values.
const void* Sample(const void* values, int64_t sample, int64_t stride, int64_t item = 2) {
  return values == nullptr ? nullptr : static_cast<const std::byte*>(values) + sample * stride * item;
}

}  // namespace

absl::StatusOr<std::unique_ptr<CudnnPlans>> PlansOf(const CudnnTarget& target, const CudnnAttention& a) {
  const int64_t own_bytes =
      a.backward ? SumBytes(a, GroupWithin(a, a.workspace_bytes).samples) : 0;  // beside the library's
  auto plans = std::make_unique<CudnnPlans>(
      target, Describe(a),
      CudnnLicence{.rounds = true, .workspace_bytes = a.workspace_bytes - own_bytes, .rank = a.rank});
  const std::shared_ptr<CudnnGraph> graph = a.backward ? BackwardGraph(*target.api, a) : ForwardGraph(*target.api, a);
  const absl::Status finished = graph->Finish(target);
  if (absl::IsUnimplemented(finished)) {
    plans->Refuse(std::string(finished.message()));
    return plans;
  }
  SNUG_RETURN_IF_ERROR(finished);
  SNUG_RETURN_IF_ERROR(plans->Add(graph));
  return plans;
}

CudnnAttentions::CudnnAttentions(CudaStream& stream, cudnnContext* handle) : stream_(stream), handle_(handle) {}
CudnnAttentions::~CudnnAttentions() = default;

absl::Status CudnnAttentions::Settle(const CudnnAttention& attention) {
  return SettleOnce(stream_, handle_, attention, plans_).status();
}

absl::Status CudnnAttentions::Run(const CudnnAttention& a, const CudnnAttentionArguments& at) {
  refused_algorithm_ = nullptr;
  SNUG_ASSIGN_OR_RETURN(CudnnPlans* const plans, SettleOnce(stream_, handle_, a, plans_));
  const int64_t samples = GroupWithin(a, a.workspace_bytes).samples;
  // Backward the sums come first in the workspace, then what the library wants.
  auto* const room = static_cast<std::byte*>(at.workspace);
  std::byte* const library_room = a.backward ? room + SumBytes(a, samples) : room;
  for (int64_t first = 0; first < a.batch; first += samples) {
    const int64_t query = first * a.heads * a.queries;
    SNUG_RETURN_IF_ERROR(plans
                             ->Run({{kQ, Sample(at.q, first, a.q.batch)},
                                    {kK, Sample(at.k, first, a.k.batch)},
                                    {kV, Sample(at.v, first, a.v.batch)},
                                    {kOut, Sample(at.out, first, a.out.batch)},
                                    {kLse, Sample(at.lse, query, 1, 4)},
                                    {kDOut, Sample(at.dout, first, a.out.batch)},
                                    {kDq, Sample(at.dq, first, a.q.batch)},
                                    {kDk, Sample(at.dk, first, a.k.batch)},
                                    {kDv, Sample(at.dv, first, a.v.batch)},
                                    {kScale, &a.scale},
                                    {kLowest, &kNothing},
                                    {kOne, &kUnit},
                                    {kSum, room}},
                                   library_room)
                             .status());
  }
  refused_algorithm_ = plans->refused();
  return absl::OkStatus();
}

#else

// No attention gets here, because a library that this build does not know is never there.
CudnnAttentions::CudnnAttentions(CudaStream& stream, cudnnContext* handle) : stream_(stream), handle_(handle) {}
CudnnAttentions::~CudnnAttentions() = default;
absl::Status CudnnAttentions::Settle(const CudnnAttention&) {
  return absl::UnimplementedError("this build has no cuDNN");
}
absl::Status CudnnAttentions::Run(const CudnnAttention&, const CudnnAttentionArguments&) {
  return absl::UnimplementedError("this build has no cuDNN");
}

#endif

}  // namespace snug::core::cuda
