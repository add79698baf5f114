// CUDA's kernels for slots in bfloat16 and in 8 bits draw and round as the processor's do. The two may differ in the
// last bit of what they round, so a few numbers in a thousand may become the other neighbour.
#include "tests/ops/narrow_state.h"

#include <gtest/gtest.h>

#include "engine/cuda/cuda_launch.h"
#include "proto/internal.pb.h"
#include "proto/options.h"
#include "tests/cuda/emulation/emulation.h"
#include "tests/cuda/fake_cuda.h"

namespace snug::core::test {

Options ParseUpdate(const std::string& text) { return proto::ParseOptions<proto::Update>(text.c_str()); }

namespace {

class NarrowStateOnCuda : public ::testing::Test {
 protected:
  void SetUp() override {
    auto device = cuda::CudaDevice::Open(fake_.api(), 0);
    ASSERT_TRUE(device.ok()) << device.status();
    auto stream = cuda::CudaStream::Create(*std::move(device));
    ASSERT_TRUE(stream.ok()) << stream.status();
    stream_ = *std::move(stream);
    context_ = std::make_unique<cuda::LaunchContext>(*stream_);
    SetCudaRun({.context = context_.get(), .synchronize = [this] { return stream_->Synchronize(); }});
  }
  void TearDown() override { SetCudaRun({}); }

 private:
  cuda::FakeCuda fake_{{.any_address = true, .kernels = cuda::emulation::BindLaunch}};
  std::unique_ptr<cuda::CudaStream> stream_;
  std::unique_ptr<cuda::LaunchContext> context_;
};

TEST_F(NarrowStateOnCuda, IsWhatItIsOnTheProcessor) {
  for (const Shape& shape : {Shape{3}, Shape{256}, Shape{5, 211}, Shape{2, 1024}}) {
    for (const UpdateCase& c : UpdateCases()) {
      for (const DType parameter : {DType::kFloat32, DType::kBFloat16}) {
        for (const DType kept : {DType::kFloat32, DType::kBFloat16, DType::kUint8}) {
          SCOPED_TRACE(absl::StrCat(c.op, " {", c.options, "} ", Name(parameter), " ", Name(kept), shape.ToString()));
          const UpdateNode node = MakeUpdate(c, parameter, kept, shape);
          const auto expected = node.Run(KernelChoice::kPlain, 1), found = node.Run(KernelChoice::kCuda, 1);
          ASSERT_TRUE(expected.ok()) << expected.status();
          ASSERT_TRUE(found.ok()) << found.status();
          if (!expected->outputs.empty()) {
            EXPECT_EQ(FindDifference(shape, found->outputs[0].ToDoubles(), expected->outputs[0].ToDoubles(), 1e-5),
                      std::nullopt);
          }
          for (size_t v = c.op == "lamb_direction" ? 1 : 0; v <= node.slots.size(); ++v) {
            const int input = v == 0 ? 0 : node.slots[v - 1];
            const bool squares = v > 0 && (c.squares >> (v - 1) & 1) != 0;
            const int64_t n = shape.num_elements();
            const std::vector<float> ours = NumbersOf(Mutated(*found, input), squares, n);
            const std::vector<float> theirs = NumbersOf(Mutated(*expected, input), squares, n);
            int64_t other = 0;
            for (size_t i = 0; i < ours.size(); ++i) {
              const double size = std::abs(static_cast<double>(theirs[i]));
              const bool narrow = (v == 0 ? parameter : kept) != DType::kFloat32;
              ASSERT_LE(std::abs(static_cast<double>(ours[i] - theirs[i])),
                        std::max(size * (narrow ? 0.13 : 1e-5), narrow ? 2e-4 : 1e-6))
                  << "input " << input << ", element " << i << ": " << ours[i] << " for " << theirs[i];
              other += narrow && ours[i] != theirs[i] ? 1 : 0;
            }
            EXPECT_LE(static_cast<double>(other), 0.01 * static_cast<double>(n)) << "input " << input;
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace snug::core::test
