#include <gtest/gtest.h>

#include <cstring>

#include "engine/base/status.h"
#include "engine/cuda/cuda_graph.h"
#include "tests/cuda/fake_cuda.h"

namespace snug::core::cuda {
namespace {

// Two streams compute a number each, and then the first one adds them up.
class CudaGraphs : public testing::Test {
 protected:
  absl::Status Ask(bool join = true) {
    SNUG_RETURN_IF_ERROR(a_->Record(*fork_));
    SNUG_RETURN_IF_ERROR(b_->WaitFor(*fork_));
    SNUG_RETURN_IF_ERROR(fake_.Run(a_->handle(), "left", [this] { left_ += 1; }));
    SNUG_RETURN_IF_ERROR(fake_.Run(b_->handle(), "right", [this, by = by_] { right_ += by; }));
    SNUG_RETURN_IF_ERROR(b_->Record(*joined_));
    if (join) SNUG_RETURN_IF_ERROR(a_->WaitFor(*joined_));
    return fake_.Run(a_->handle(), "sum", [this] { sum_ = left_ + right_; });
  }

  FakeCuda fake_;
  std::shared_ptr<CudaDevice> device_ = CudaDevice::Open(fake_.api(), 0).value();
  std::unique_ptr<CudaStream> a_ = CudaStream::Create(device_).value(), b_ = CudaStream::Create(device_).value();
  std::unique_ptr<CudaEvent> fork_ = CudaEvent::Create(device_).value(), joined_ = CudaEvent::Create(device_).value();
  CudaGraph graph_{device_};
  int left_ = 0, right_ = 0, by_ = 10, sum_ = 0;
};

TEST_F(CudaGraphs, RecordNowAndRunLater) {
  ASSERT_TRUE(graph_.Capture(*a_, [this] { return Ask(); }).ok());
  ASSERT_TRUE(a_->Synchronize().ok());
  EXPECT_EQ(left_ + right_, 0) << "nothing runs while it is recorded";
  for (int i = 1; i <= 5; ++i) {
    ASSERT_TRUE(graph_.Launch(*a_).ok());
    ASSERT_TRUE(a_->Synchronize().ok());
    EXPECT_EQ(sum_, 11 * i);
  }
}

TEST_F(CudaGraphs, AreChangedInPlaceWhereOnlyNumbersDiffer) {
  ASSERT_TRUE(graph_.Capture(*a_, [this] { return Ask(); }).ok());
  by_ = 20;
  ASSERT_TRUE(graph_.Capture(*a_, [this] { return Ask(); }).ok());
  ASSERT_TRUE(graph_.Launch(*a_).ok());
  ASSERT_TRUE(a_->Synchronize().ok());
  EXPECT_EQ(sum_, 21);
  EXPECT_EQ(fake_.Count("cuGraphInstantiate"), 1);
  const auto more = [this]() -> absl::Status {
    SNUG_RETURN_IF_ERROR(Ask());
    return fake_.Run(a_->handle(), "more", [this] { sum_ += 100; });
  };
  ASSERT_TRUE(graph_.Capture(*a_, more).ok());
  EXPECT_EQ(fake_.Count("cuGraphInstantiate"), 2);
  ASSERT_TRUE(graph_.Launch(*a_).ok());
  ASSERT_TRUE(a_->Synchronize().ok());
  EXPECT_EQ(sum_, 142);
}

TEST_F(CudaGraphs, AStreamThatIsNotJoinedIsAnError) {
  EXPECT_FALSE(graph_.Capture(*a_, [this] { return Ask(/*join=*/false); }).ok());
  EXPECT_FALSE(graph_.captured());
  EXPECT_TRUE(graph_.Capture(*a_, [this] { return Ask(); }).ok()) << "and harms nothing that comes later";
}

TEST_F(CudaGraphs, WaitingAndTakingMemoryCannotBeRecorded) {
  EXPECT_FALSE(graph_.Capture(*a_, [this] { return a_->Synchronize(); }).ok());
  EXPECT_FALSE(graph_.Capture(*a_, [this] { return device_->Allocate(8).status(); }).ok());
  EXPECT_EQ(fake_.Count("cuGraphInstantiate"), 0);
}

}  // namespace
}  // namespace snug::core::cuda
