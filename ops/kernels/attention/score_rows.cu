// What lies between the products of attention (pieces.h): rows of scores, which become probabilities, and gradients of
// scores. A warp or a block does each row. Of what a query does not see nothing is read, and zeros are written.
#include <limits>

#include "ops/kernels/attention/pieces.h"
#include "ops/kit/cuda/kernel.h"
#include "ops/kit/cuda/rows.h"
#include "ops/kit/vec_math.h"

namespace snug::core {
namespace {

constexpr float kNothing = -std::numeric_limits<float>::infinity();

// Whose scores are a row.
struct RowOwner {
  int64_t query, b, h;
  int64_t number;  // of the query of the head, among those of all heads

  __device__ RowOwner(const ScoreRows& rows, int64_t row) {
    const AttentionPiece& piece = rows.piece;
    query = piece.first_query + row % piece.queries;
    const int64_t i = row / piece.queries;
    const int64_t head =
        (piece.first_run + i / piece.heads) * rows.run_step + (piece.first_head + i % piece.heads) * rows.head_step;
    b = head / rows.sizes.heads;
    h = head % rows.sizes.heads;
    number = head * rows.sizes.queries + query;
  }
};

// The scores of a row, from products of q and k; -infinity where the query does not see the key, and beyond all keys.
// Packs of a Deal that holds any are read once.
template <class Deal>
struct SeenScores {
  using Pack = CudaPack<float, Deal::kPack>;

  const float* products;
  const float* mask;  // of this query; null: there is none
  int64_t mask_step, seen;
  float scale;
  Pack held[Deal::kHeld > 0 ? Deal::kHeld : 1];

  __device__ SeenScores(const ScoreRows& rows, const RowOwner& owner, const float* row, const float* all_masks)
      : products(row),
        mask(nullptr),
        mask_step(rows.sizes.mask[3]),
        seen(rows.sizes.KeysOf(owner.query)),
        scale(static_cast<float>(rows.sizes.scale)) {
    const auto& strides = rows.sizes.mask;
    if (all_masks != nullptr) mask = all_masks + owner.b * strides[0] + owner.h * strides[1] + owner.query * strides[2];
    if constexpr (Deal::kHeld > 0) {
      Deal::Each(rows.piece.pitch(), [&](int n, int i) { held[n] = Load(i); });
    }
  }
  __device__ Pack At(int n, int64_t i) const {
    if constexpr (Deal::kHeld > 0) {
      return held[n];
    } else {
      return Load(i);
    }
  }
  __device__ Pack Load(int64_t i) const {
    Pack pack = {};
    if (i < seen) pack = LoadPack<true, Deal::kPack>(products + i, Deal::kPack);
    for (int j = 0; j < Deal::kPack; ++j) {
      if (i + j >= seen) {
        pack.values[j] = kNothing;
      } else {
        pack.values[j] *= scale;
        if (mask != nullptr) pack.values[j] += mask[(i + j) * mask_step];
      }
    }
    return pack;
  }
};

template <class Deal>
__global__ void ProbabilitiesKernel(ScoreRows rows, const float* mask, float* lse, float* scores) {
  using Team = typename Deal::Team;
  const int64_t count = rows.count(), pitch = rows.piece.pitch();
  for (int64_t r = Team::FirstRow(); r < count; r += Team::RowStep()) {
    const RowOwner owner(rows, r);
    float* const row = scores + r * pitch;
    const SeenScores<Deal> seen(rows, owner, row, mask);
    float most = kNothing;
    Deal::Each(pitch, [&](int n, auto i) {
      const auto pack = seen.At(n, i);
      for (int j = 0; j < Deal::kPack; ++j) most = MaxOp::Combine(most, pack.values[j]);
    });
    most = static_cast<float>(Team::template Combine<MaxOp>(most));
    const bool nothing = most == kNothing;
    const float base = nothing ? 0 : most;
    const double sum = Deal::template Sum<float>(pitch, [&](int n, auto i) {
      return SumOfPack(seen.At(n, i), [&](float v) { return v == kNothing ? 0 : Exp(v - base); });
    });
    const float factor = nothing ? 0 : static_cast<float>(1 / sum);
    Deal::Each(pitch, [&](int n, auto i) {
      auto pack = seen.At(n, i);
      for (float& v : pack.values) v = v == kNothing ? 0 : Exp(v - base) * factor;
      StorePack<true>(pack, row + i, Deal::kPack);
    });
    if (Team::First() == 0) lse[owner.number] = nothing ? kNothing : most + static_cast<float>(log(sum));
  }
}

template <class Deal>
__global__ void ScoreGradKernel(ScoreRows rows, AttentionBackward<float> call, float* scores, float* grads) {
  using Team = typename Deal::Team;
  const AttentionSizes& s = rows.sizes;
  const int64_t count = rows.count(), pitch = rows.piece.pitch();
  for (int64_t r = Team::FirstRow(); r < count; r += Team::RowStep()) {
    const RowOwner owner(rows, r);
    const int64_t at = s.out.Offset(owner.b, owner.h, owner.query);
    double own = 0;
    for (int64_t i = Team::First(); i < s.width; i += Team::kThreads) {
      own += static_cast<double>(call.out[at + i] * call.dout[at + i]);
    }
    const auto delta = static_cast<float>(Team::template Combine<SumOp>(own));
    const float lse = call.lse[owner.number];
    const auto scale = static_cast<float>(s.scale);
    float* const row = scores + r * pitch;
    float* const grad_row = grads + r * pitch;
    const SeenScores<Deal> seen(rows, owner, row, call.mask);
    Deal::Each(pitch, [&](int n, auto i) {
      auto probabilities = seen.At(n, i);
      auto of_scores = probabilities;
      if (i < seen.seen) of_scores = LoadPack<true, Deal::kPack>(grad_row + i, Deal::kPack);
      for (int j = 0; j < Deal::kPack; ++j) {
        const float score = probabilities.values[j];
        const bool sees = score != kNothing && lse != kNothing;
        // No probability is above 1: where a finite mask of 1e9 hides all keys, the forward pass may have rounded a
        // score by 64 otherwise than here.
        const float probability = sees ? Exp(score < lse ? score - lse : 0) : 0;
        probabilities.values[j] = probability;
        of_scores.values[j] = sees ? probability * (of_scores.values[j] - delta) * scale : 0;
      }
      StorePack<true>(probabilities, row + i, Deal::kPack);
      StorePack<true>(of_scores, grad_row + i, Deal::kPack);
    });
  }
}

}  // namespace

absl::Status ScoresToProbabilities(const KernelContext& k, const ScoreRows& rows, const AttentionForward<float>& call,
                                   float* scores) {
  return DealRows<float, true>(
      rows.count(), rows.piece.pitch(), IsAligned(scores), [&]<class Deal>(Deal, int64_t blocks) {
        return k.cuda()->Launch(ProbabilitiesKernel<Deal>, {.blocks = blocks, .threads = kCudaThreads}, rows, call.mask,
                                call.lse, scores);
      });
}

absl::Status ScoresToGradients(const KernelContext& k, const ScoreRows& rows, const AttentionBackward<float>& call,
                               float* scores, float* grads) {
  return DealRows<float, false>(
      rows.count(), rows.piece.pitch(), AllAligned(scores, grads), [&]<class Deal>(Deal, int64_t blocks) {
        return k.cuda()->Launch(ScoreGradKernel<Deal>, {.blocks = blocks, .threads = kCudaThreads}, rows, call, scores,
                                grads);
      });
}

}  // namespace snug::core
