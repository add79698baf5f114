// Attention by a library's products, piece by piece. A piece is some queries of some heads: their scores are a product
// and lie in the workspace, a kernel of ours makes probabilities of them (score_rows.cu), and a product with v follows;
// backward there are five products and a kernel. Queries that a causal mask lets see few keys are a piece with few
// keys.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>

#include "ops/kernels/attention/attention.h"

namespace snug::core {

// Scores of so many bytes exist at a time; backward that is half for the scores, half for their gradient.
inline constexpr int64_t kMostScoreBytes = int64_t{64} << 20;

struct AttentionPiece {
  int64_t first_run = 0, runs = 1;
  int64_t first_head = 0, heads = 1;  // in each run
  int64_t first_query = 0, queries = 1;
  int64_t keys = 1;  // keys 0 to keys - 1: no query of the piece sees more

  // Rows of scores begin at multiples of 16 bytes.
  SNUG_HOST_DEVICE int64_t pitch() const { return (keys + 3) / 4 * 4; }
  int64_t scores() const { return runs * heads * queries * pitch(); }
};

// How the heads of all samples are cut. A library takes several products whose operands lie evenly: a run of them. That
// is all heads where they lie so, or those of one sample, or one head of all samples: the fewest runs are the fewest
// launches.
struct AttentionPieces {
  int64_t runs = 1, heads = 1;  // heads in each run
  bool across_samples = false;  // a run is one head of all samples
  int64_t piece_runs = 1, piece_heads = 1, piece_queries = 1;

  // Returns how far the next head of a run lies, and the next run.
  int64_t HeadStep(const AttentionOperand& at) const { return across_samples ? at.batch : at.head; }
  int64_t RunStep(const AttentionOperand& at) const { return across_samples ? at.head : at.batch; }

  // Calls fn(piece, first) for each piece: the last queries of some heads first, then those before them. `first` says
  // that no other queries of these heads have been there. Backward those see all keys, so that their sums begin with
  // them. It ends with the first error.
  template <class Fn>
  absl::Status ForEach(const AttentionSizes& s, bool backward, const Fn& fn) const {
    const int64_t last = (s.queries - 1) / piece_queries * piece_queries;
    for (int64_t run = 0; run < runs; run += piece_runs) {
      for (int64_t head = 0; head < heads; head += piece_heads) {
        for (int64_t query = last; query >= 0; query -= piece_queries) {
          const int64_t end = std::min(query + piece_queries, s.queries);
          const AttentionPiece piece = {.first_run = run,
                                        .runs = std::min(piece_runs, runs - run),
                                        .first_head = head,
                                        .heads = std::min(piece_heads, heads - head),
                                        .first_query = query,
                                        .queries = end - query,
                                        .keys = backward && query == last ? s.keys : s.KeysOf(end - 1)};
          if (absl::Status status = fn(piece, query == last); !status.ok()) return status;
        }
      }
    }
    return absl::OkStatus();
  }
  int64_t WorkspaceBytes(const AttentionSizes& s, bool backward) const;
};

// `most_bytes`: of scores at a time. A row of the scores of one head is there in any case.
AttentionPieces CutAttention(const AttentionSizes& s, bool backward, bool tf32, int64_t most_bytes = kMostScoreBytes);

// Says whether products, piece by piece, take less time than our own kernel (cuda.cu), by counting operations, the
// bytes of scores and launches. docs/cuda.md has the rule.
bool ProductsPay(const AttentionSizes& s, const AttentionPieces& pieces, bool backward, bool tf32);

// What the kernels between the products know of a piece, whose scores are [runs, heads, queries, pitch].
struct ScoreRows {
  AttentionSizes sizes;
  AttentionPiece piece;
  // From a run to the next, and from a head of a run to the next, among the heads of all samples.
  int64_t run_step = 1, head_step = 1;

  ScoreRows(const AttentionSizes& s, const AttentionPieces& pieces, const AttentionPiece& one)
      : sizes(s),
        piece(one),
        run_step(pieces.across_samples ? 1 : pieces.heads),
        head_step(pieces.across_samples ? s.heads : 1) {}

  SNUG_HOST_DEVICE int64_t count() const { return piece.runs * piece.heads * piece.queries; }
};

// Makes probabilities of products of q and k, in place, and writes lse.
absl::Status ScoresToProbabilities(const KernelContext& k, const ScoreRows& rows, const AttentionForward<float>& call,
                                   float* scores);
// Makes probabilities of `scores` by lse, and of `grads`, which are products of dout and v, the gradients of the
// products of q and k: both in place.
absl::Status ScoresToGradients(const KernelContext& k, const ScoreRows& rows, const AttentionBackward<float>& call,
                               float* scores, float* grads);

// By cuBLASLt (cublaslt.cc). `k` has as prepared what the first returns, and a workspace of pieces.WorkspaceBytes.
std::shared_ptr<const void> PrepareAttentionProducts(const AttentionSizes& s, const AttentionPieces& pieces,
                                                     bool backward, bool tf32, int rank);
absl::Status AttentionByProducts(const KernelContext& k, const AttentionForward<float>& call);
absl::Status AttentionGradByProducts(const KernelContext& k, const AttentionBackward<float>& call);

}  // namespace snug::core
