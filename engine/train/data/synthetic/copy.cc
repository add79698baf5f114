// The task of copying: a random prefix, a separator, and the prefix again. A model must predict every next token. The
// labels of the prefix, which nobody can know, are ignored, so a model that has learnt to look back can be right
// everywhere.
#include "engine/train/data/synthetic/tasks.h"

namespace snug::core {
namespace {

constexpr int kPrefix = 16;
constexpr int kVocabulary = 32;  // 0 is the separator
constexpr int kLength = 2 * kPrefix;

class Copy final : public DrawnDataset {
 public:
  explicit Copy(const SyntheticOptions& options)
      : DrawnDataset(
            "copy",
            {{.name = "tokens", .type = {.dtype = DType::kInt32, .shape = {kLength}}, .max_value = kVocabulary},
             {.name = "label",
              .type = {.dtype = DType::kInt32, .shape = {kLength}},
              .max_value = kVocabulary,
              .padding = kIgnoredLabel}},
            options) {}

  absl::Status Read(int64_t sample, absl::Span<std::byte* const> fields) const override {
    Draws draws = DrawsOf(sample);
    auto* tokens = reinterpret_cast<int32_t*>(fields[0]);
    auto* labels = reinterpret_cast<int32_t*>(fields[1]);
    // The tokens are p0 .. p15 | p0 .. p14; the labels are the tokens that come next, from the separator on.
    for (int i = 0; i < kPrefix; ++i) {
      const int token = 1 + draws.Below(kVocabulary - 1);
      tokens[i] = token;
      labels[i] = kIgnoredLabel;
      labels[kPrefix + i] = token;
      if (i + 1 < kPrefix) tokens[kPrefix + 1 + i] = token;
    }
    tokens[kPrefix] = 0;
    return absl::OkStatus();
  }
};

}  // namespace

std::unique_ptr<Dataset> MakeCopy(const SyntheticOptions& options) { return std::make_unique<Copy>(options); }

}  // namespace snug::core
