// Points with noise on arms that wind around each other; the label is the arm.
#include "engine/train/data/synthetic/tasks.h"

namespace snug::core {
namespace {

constexpr int kArms = 3;
constexpr float kTurns = 0.9F;  // how far each arm winds

class Spiral final : public DrawnDataset {
 public:
  explicit Spiral(const SyntheticOptions& options)
      : DrawnDataset(
            "spiral",
            {{.name = "point", .type = {.shape = {2}}},
             {.name = "label", .type = {.dtype = DType::kInt32}, .max_value = kArms, .padding = kIgnoredLabel}},
            options) {}

  absl::Status Read(int64_t sample, absl::Span<std::byte* const> fields) const override {
    Draws draws = DrawsOf(sample);
    const int arm = draws.Below(kArms);
    const float along = draws.Uniform(0.05F, 1);
    const float turns = kTurns * along + static_cast<float>(arm) / kArms;
    auto* point = reinterpret_cast<float*>(fields[0]);
    point[0] = along * CosineOfTurns(turns) + 0.03F * draws.Noise();
    point[1] = along * SineOfTurns(turns) + 0.03F * draws.Noise();
    *reinterpret_cast<int32_t*>(fields[1]) = arm;
    return absl::OkStatus();
  }
};

}  // namespace

std::unique_ptr<Dataset> MakeSpiral(const SyntheticOptions& options) { return std::make_unique<Spiral>(options); }

}  // namespace snug::core
