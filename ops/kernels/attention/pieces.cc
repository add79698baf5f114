#include "ops/kernels/attention/pieces.h"

#include "engine/base/status.h"

namespace snug::core {
namespace {

constexpr int64_t kQueryTile = 64;  // the least queries of a piece, and what they are a multiple of

// Our own kernel's operations are the unit of the comparison. These say what an H100 does in the time of one (model of
// the device: engine/run/observe/device_model.cc): the library's products reach 0.72 of a peak of which our own kernel
// reaches 0.3; a byte of scores goes to memory and back at 3 TB/s; a launch and its first data take 2.2 us.
constexpr double kProductOperations = 0.72 / 0.3;
constexpr double kTf32Operations = 0.72 * 494 / (0.3 * 67);
constexpr double kOfByte = 0.3 * 67e12 / 3e12;
constexpr double kOfLaunch = 0.3 * 67e12 * 2.2e-6;

int64_t CeilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }

int64_t ScoreMatrices(bool backward) { return backward ? 2 : 1; }  // scores, and their gradients

// Tiles that a causal query does not see are left out, and half of those on the diagonal are in vain. The scores are
// computed again for each 128 columns of the results.
double OwnTime(const AttentionSizes& s, bool backward) {
  constexpr int64_t kOwnTile = 32, kColumns = 128;
  double pairs = 0;
  for (int64_t i = 0; i < s.queries; i += kOwnTile) {
    const int64_t last = std::min(i + kOwnTile, s.queries) - 1;
    pairs += static_cast<double>((last - i + 1) * s.KeysOf(last));
  }
  const auto times = static_cast<double>(CeilDiv(s.width, kColumns));
  const double products = backward ? 4 * times + 3 : times + 1;
  return 2 * products * static_cast<double>(s.batch * s.heads * s.width) * pairs + (backward ? 3 : 1) * kOfLaunch;
}

double TimeOfProducts(const AttentionSizes& s, const AttentionPieces& pieces, bool backward, bool tf32) {
  // How often scores are written or read: by each product and by the kernel between them.
  const double products = backward ? 5 : 2;
  const double passes = backward ? 5 + 4 : 2 + 2;
  double time = 0;
  const absl::Status counted = pieces.ForEach(s, backward, [&](const AttentionPiece& piece, bool) {
    const auto scores = static_cast<double>(piece.scores());
    time += scores * 2 * products * static_cast<double>(s.width) / (tf32 ? kTf32Operations : kProductOperations);
    time += scores * sizeof(float) * passes * kOfByte;
    time += (products * static_cast<double>(piece.runs) + 1) * kOfLaunch;
    return absl::OkStatus();
  });
  SNUG_CHECK_OK(counted);
  return time;
}

// Returns the largest part of `all`, all of them about alike, that has at most `most`.
int64_t EvenPart(int64_t all, int64_t most) { return CeilDiv(all, CeilDiv(all, std::max<int64_t>(most, 1))); }

}  // namespace

int64_t AttentionPieces::WorkspaceBytes(const AttentionSizes& s, bool backward) const {
  int64_t most = 0;
  const absl::Status counted = ForEach(s, backward, [&](const AttentionPiece& piece, bool) {
    most = std::max(most, piece.scores());
    return absl::OkStatus();
  });
  SNUG_CHECK_OK(counted);
  return most * ScoreMatrices(backward) * static_cast<int64_t>(sizeof(float));
}

AttentionPieces CutAttention(const AttentionSizes& s, bool backward, bool tf32, int64_t most_bytes) {
  AttentionPieces whole;
  const auto even = [&](const AttentionOperand& at) { return at.batch == at.head * s.heads; };
  const bool all = s.batch == 1 || (even(s.q) && even(s.k) && even(s.out));
  whole.across_samples = !all && s.batch > s.heads;
  whole.runs = all ? 1 : std::min(s.batch, s.heads);
  whole.heads = s.batch * s.heads / whole.runs;
  const AttentionPiece all_keys = {.keys = s.keys};
  const int64_t most_rows = std::max<int64_t>(
      1, most_bytes / (ScoreMatrices(backward) * all_keys.pitch() * static_cast<int64_t>(sizeof(float))));
  // Causal queries gain by small pieces, until their launches cost more than the keys that nobody sees.
  AttentionPieces best;
  double least = 0;
  for (int64_t parts = 1;; parts *= 2) {
    AttentionPieces cut = whole;
    cut.piece_queries = std::min(s.queries, CeilDiv(CeilDiv(s.queries, parts), kQueryTile) * kQueryTile);
    if (cut.piece_queries > most_rows) {
      cut.piece_queries = most_rows < kQueryTile ? most_rows : most_rows / kQueryTile * kQueryTile;
    }
    cut.piece_heads = EvenPart(cut.heads, most_rows / cut.piece_queries);
    if (cut.piece_heads == cut.heads) cut.piece_runs = EvenPart(cut.runs, most_rows / (cut.piece_queries * cut.heads));
    const double time = TimeOfProducts(s, cut, backward, tf32);
    if (parts == 1 || time < least) {
      best = cut;
      least = time;
    }
    if (!s.causal || cut.piece_queries <= kQueryTile) return best;
  }
}

bool ProductsPay(const AttentionSizes& s, const AttentionPieces& pieces, bool backward, bool tf32) {
  return TimeOfProducts(s, pieces, backward, tf32) < OwnTime(s, backward);
}

}  // namespace snug::core
