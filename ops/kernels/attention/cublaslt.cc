// The kernel rows of attention by cuBLASLt's products (pieces.h). q, k and v are read, and their gradients written,
// where they lie. Backward the gradients of k and v are added up piece by piece, always in the same sequence.
#include <algorithm>
#include <limits>
#include <memory>
#include <optional>
#include <utility>

#include "engine/base/status.h"
#include "engine/cuda/cublas_matmul.h"
#include "engine/cuda/cuda_launch.h"
#include "engine/cuda/cuda_libraries.h"
#include "ops/kernels/attention/attention.h"
#include "ops/kernels/attention/pieces.h"
#include "ops/kit/library_variant.h"
#include "ops/prepare_context.h"

namespace snug::core {
namespace {

// What Prepare hands over.
struct PreparedProducts {
  AttentionSizes sizes;
  AttentionPieces pieces;
  bool backward = false;
  cuda::CublasMatMul as;  // what all products have in common
};

// StoredMatrices of the heads of a piece: the rows of an operand, or scores.
struct StoredMatrices {
  int64_t rows, columns, row_step, head_step;
};

// The products of a piece. Each is done once for each run.
class PieceProducts {
 public:
  PieceProducts(const PreparedProducts& of, const AttentionPiece& piece)
      : as_(of.as),
        scores_{piece.queries, piece.keys, piece.pitch(), piece.queries * piece.pitch()},
        q_(Rows(of, of.sizes.q, piece.queries)),
        k_(Rows(of, of.sizes.k, piece.keys)),
        out_(Rows(of, of.sizes.out, piece.queries)) {
    as_.count = piece.heads;
  }

  // q k^T, and dout v^T: v lies like k, dout like out.
  cuda::CublasMatMul Scores() const { return Product(q_, false, k_, true, scores_); }
  cuda::CublasMatMul GradProbabilities() const { return Product(out_, false, k_, true, scores_); }
  // What the scores or probabilities make of the keys: out, and dq.
  cuda::CublasMatMul Out() const { return Product(scores_, false, k_, false, out_); }
  cuda::CublasMatMul GradQ() const { return Product(scores_, false, k_, false, q_); }
  // And of the queries: dv, and dk.
  cuda::CublasMatMul GradV(bool first) const { return Sum(out_, first); }
  cuda::CublasMatMul GradK(bool first) const { return Sum(q_, first); }

  absl::Status Settle(cuda::CublasMatMuls& products, bool backward, bool first) const {
    SNUG_RETURN_IF_ERROR(products.Settle(Scores()));
    if (!backward) return products.Settle(Out());
    SNUG_RETURN_IF_ERROR(products.Settle(GradProbabilities()));
    SNUG_RETURN_IF_ERROR(products.Settle(GradV(first)));
    SNUG_RETURN_IF_ERROR(products.Settle(GradQ()));
    return products.Settle(GradK(first));
  }

 private:
  static StoredMatrices Rows(const PreparedProducts& of, const AttentionOperand& at, int64_t rows) {
    return {rows, of.sizes.width, at.row, of.pieces.HeadStep(at)};
  }
  cuda::CublasMatMul Product(const StoredMatrices& a, bool transpose_a, const StoredMatrices& b, bool transpose_b,
                             const StoredMatrices& c) const {
    cuda::CublasMatMul product = as_;
    product.m = c.rows;
    product.n = c.columns;
    product.k = transpose_a ? a.rows : a.columns;
    product.transpose_a = transpose_a;
    product.transpose_b = transpose_b;
    product.a_step = a.head_step;
    product.b_step = b.head_step;
    product.c_step = c.head_step;
    product.a_row = a.row_step;
    product.b_row = b.row_step;
    product.c_row = c.row_step;
    return product;
  }
  cuda::CublasMatMul Sum(const StoredMatrices& of_queries, bool first) const {
    cuda::CublasMatMul product = Product(scores_, true, of_queries, false, k_);
    product.accumulates = !first;
    return product;
  }

  cuda::CublasMatMul as_;
  StoredMatrices scores_, q_, k_, out_;
};

// Where a run of a piece has its numbers, counted from the first of all.
struct RunPlace {
  int64_t q, k, out, scores;

  RunPlace(const PreparedProducts& of, const AttentionPiece& piece, int64_t i)
      : q(At(of, of.sizes.q, piece, i) + piece.first_query * of.sizes.q.row),
        k(At(of, of.sizes.k, piece, i)),
        out(At(of, of.sizes.out, piece, i) + piece.first_query * of.sizes.out.row),
        scores(i * piece.heads * piece.queries * piece.pitch()) {}

 private:
  static int64_t At(const PreparedProducts& of, const AttentionOperand& at, const AttentionPiece& piece, int64_t i) {
    return (piece.first_run + i) * of.pieces.RunStep(at) + piece.first_head * of.pieces.HeadStep(at);
  }
};

absl::Status MultiplyInto(cuda::CublasMatMuls& products, const cuda::CublasMatMul& product, const float* a,
                          const float* b, float* c) {
  return products.Run(product, {.a = a, .b = b, .c = c}).status();
}

absl::StatusOr<cuda::CublasMatMuls*> AttentionProductsOn(const cuda::LaunchContext& cuda) {
  return cuda::LibrariesOf(cuda.stream()).matmuls();
}

}  // namespace

absl::Status AttentionByProducts(const KernelContext& k, const AttentionForward<float>& call) {
  const auto& of = k.prepared<PreparedProducts>();
  SNUG_ASSIGN_OR_RETURN(cuda::CublasMatMuls* const products, AttentionProductsOn(*k.cuda()));
  auto* const scores = k.workspace<float>();
  return of.pieces.ForEach(of.sizes, false, [&](const AttentionPiece& piece, bool) -> absl::Status {
    const PieceProducts of_piece(of, piece);
    for (int64_t i = 0; i < piece.runs; ++i) {
      const RunPlace at(of, piece, i);
      SNUG_RETURN_IF_ERROR(
          MultiplyInto(*products, of_piece.Scores(), call.q + at.q, call.k + at.k, scores + at.scores));
    }
    SNUG_RETURN_IF_ERROR(ScoresToProbabilities(k, ScoreRows(of.sizes, of.pieces, piece), call, scores));
    for (int64_t i = 0; i < piece.runs; ++i) {
      const RunPlace at(of, piece, i);
      SNUG_RETURN_IF_ERROR(
          MultiplyInto(*products, of_piece.Out(), scores + at.scores, call.v + at.k, call.out + at.out));
    }
    return absl::OkStatus();
  });
}

absl::Status AttentionGradByProducts(const KernelContext& k, const AttentionBackward<float>& call) {
  const auto& of = k.prepared<PreparedProducts>();
  SNUG_ASSIGN_OR_RETURN(cuda::CublasMatMuls* const products, AttentionProductsOn(*k.cuda()));
  auto* const scores = k.workspace<float>();
  return of.pieces.ForEach(of.sizes, true, [&](const AttentionPiece& piece, bool first) -> absl::Status {
    const PieceProducts of_piece(of, piece);
    float* const grads = scores + piece.scores();
    for (int64_t i = 0; i < piece.runs; ++i) {
      const RunPlace at(of, piece, i);
      SNUG_RETURN_IF_ERROR(
          MultiplyInto(*products, of_piece.Scores(), call.q + at.q, call.k + at.k, scores + at.scores));
      SNUG_RETURN_IF_ERROR(
          MultiplyInto(*products, of_piece.GradProbabilities(), call.dout + at.out, call.v + at.k, grads + at.scores));
    }
    SNUG_RETURN_IF_ERROR(ScoresToGradients(k, ScoreRows(of.sizes, of.pieces, piece), call, scores, grads));
    for (int64_t i = 0; i < piece.runs; ++i) {
      const RunPlace at(of, piece, i);
      SNUG_RETURN_IF_ERROR(
          MultiplyInto(*products, of_piece.GradV(first), scores + at.scores, call.dout + at.out, call.dv + at.k));
      SNUG_RETURN_IF_ERROR(MultiplyInto(*products, of_piece.GradQ(), grads + at.scores, call.k + at.k, call.dq + at.q));
      SNUG_RETURN_IF_ERROR(
          MultiplyInto(*products, of_piece.GradK(first), grads + at.scores, call.q + at.q, call.dk + at.k));
    }
    return absl::OkStatus();
  });
}

std::shared_ptr<const void> PrepareAttentionProducts(const AttentionSizes& s, const AttentionPieces& pieces,
                                                     bool backward, bool tf32, int rank) {
  auto prepared =
      std::make_shared<PreparedProducts>(PreparedProducts{.sizes = s, .pieces = pieces, .backward = backward});
  prepared->as.tf32 = tf32;
  prepared->as.rank = rank;
  // All that is not a row's beginning is a multiple of the width from one.
  const auto row_bytes = s.width * static_cast<int64_t>(sizeof(float));
  prepared->as.alignment = static_cast<int>(std::min<int64_t>(16, row_bytes & -row_bytes));
  return prepared;
}

namespace {

std::optional<NotServed> WhyNotByProducts(const NodeTypes& types, const AttentionSizes& s) {
  constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
  if (types.input(0).dtype != DType::kFloat32) {
    return ByDesign("scores would be rounded between products: it is for float32");
  }
  const bool fits = s.batch > 0 && s.heads > 0 && s.queries > 0 && s.keys > 0 && s.width > 0 &&
                    std::max({s.batch * s.heads, s.queries, s.keys, s.width}) < kMost;
  return fits ? std::nullopt : std::optional(Refused("it takes dimensions from 1 to 2147483647"));
}

absl::Status PrepareByProducts(PrepareContext& c, const AttentionSizes& s, bool backward) {
  const bool asked = !c.choice().empty();
  SNUG_ASSIGN_OR_RETURN(const LibraryVariant variant, TakeLibraryVariant(c, /*varies=*/false));
  const AttentionPieces pieces = CutAttention(s, backward, variant.tf32);
  if (!asked && !ProductsPay(s, pieces, backward, variant.tf32)) {
    c.Decline(ByDesign("products and what passes between them would take longer than our own kernel"));
    return absl::OkStatus();
  }
  c.SetWorkspaceBytes(pieces.WorkspaceBytes(s, backward));
  c.SetKernel(PrepareAttentionProducts(s, pieces, backward, variant.tf32, variant.rank));
  return absl::OkStatus();
}

// Where our own kernel is the default, the library's is what else there is.
std::vector<std::string> OtherWays(const PrepareContext& c, const AttentionSizes& s, bool backward) {
  std::vector<std::string> others = OtherLibraryVariants(c, /*varies=*/false);
  const bool tf32 = c.licence().tf32;
  if (!ProductsPay(s, CutAttention(s, backward, tf32), backward, tf32)) {
    others.back() = LibraryVariant{.tf32 = tf32}.Name();
  }
  return others;
}

absl::Status SettleByProducts(const SettleContext& s) {
  const auto& of = *static_cast<const PreparedProducts*>(s.prepared);
  SNUG_ASSIGN_OR_RETURN(cuda::CublasMatMuls* const products, AttentionProductsOn(*s.cuda));
  return of.pieces.ForEach(of.sizes, of.backward, [&](const AttentionPiece& piece, bool first) {
    return PieceProducts(of, piece).Settle(*products, of.backward, first);
  });
}

KernelCalls CallsOf(const PreparedProducts& of) {
  KernelCalls calls;
  const auto add = [&](const AttentionPiece& piece, const cuda::CublasMatMul& product) {
    calls.products.push_back({static_cast<double>(piece.runs), static_cast<double>(product.count),
                              static_cast<double>(product.m), static_cast<double>(product.n),
                              static_cast<double>(product.k)});
  };
  const absl::Status counted = of.pieces.ForEach(of.sizes, of.backward, [&](const AttentionPiece& piece, bool first) {
    const PieceProducts products(of, piece);
    add(piece, products.Scores());
    if (of.backward) {
      add(piece, products.GradProbabilities());
      add(piece, products.GradV(first));
      add(piece, products.GradQ());
      add(piece, products.GradK(first));
    } else {
      add(piece, products.Out());
    }
    const double bytes = static_cast<double>(piece.scores()) * sizeof(float) * (of.backward ? 2 : 1);
    calls.sweeps += 1;
    calls.sweep_bytes += 2 * bytes;
    calls.kept_bytes = std::max(calls.kept_bytes, bytes);
    return absl::OkStatus();
  });
  SNUG_CHECK_OK(counted);
  return calls;
}

KernelRow ProductsRow(const AttentionSizesOf& sizes, bool backward, KernelFn run) {
  return {.device = kOnCuda,
          .name = "cublaslt",
          .library = "cuBLASLt",
          .serves = [sizes](const NodeTypes& types) { return WhyNotByProducts(types, sizes(types)); },
          .prepare = [sizes, backward](PrepareContext& c) { return PrepareByProducts(c, sizes(c.types()), backward); },
          .variants = [sizes, backward](const PrepareContext& c) -> absl::StatusOr<std::vector<std::string>> {
            return OtherWays(c, sizes(c.types()), backward);
          },
          .settle = SettleByProducts,
          .calls = [](const void* prepared) { return CallsOf(*static_cast<const PreparedProducts*>(prepared)); },
          .run = std::move(run)};
}

}  // namespace

KernelRow CublasAttentionRow(const AttentionSizesOf& sizes,
                             std::function<AttentionForward<float>(const KernelContext&)> call) {
  return ProductsRow(sizes, /*backward=*/false,
                     [call = std::move(call)](const KernelContext& k) { return AttentionByProducts(k, call(k)); });
}

KernelRow CublasAttentionGradRow(const AttentionSizesOf& sizes,
                                 std::function<AttentionBackward<float>(const KernelContext&)> call) {
  return ProductsRow(sizes, /*backward=*/true,
                     [call = std::move(call)](const KernelContext& k) { return AttentionGradByProducts(k, call(k)); });
}

}  // namespace snug::core
