// Tests products by the pretended cuBLASLt: which calls are made, and that one that fails is an error and leaves
// nothing behind.
#include <absl/strings/str_cat.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "engine/base/status.h"
#include "engine/cuda/cublas_matmul.h"
#include "engine/cuda/cuda_libraries.h"
#include "tests/cuda/fake_cuda.h"

namespace snug::core {
namespace {

using cuda::FakeCuda;
using cuda::FakeLibraries;
using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

// A stream of the pretended device, with numbers to multiply.
struct Products {
  explicit Products(FakeCuda& f) : fake(f) {
    stream = cuda::CudaStream::Create(cuda::CudaDevice::Open(fake.api(), 0).value()).value();
  }
  absl::Status Run(const cuda::CublasMatMul& product) {
    SNUG_ASSIGN_OR_RETURN(cuda::CublasMatMuls* const products, cuda::LibrariesOf(*stream).matmuls());
    SNUG_RETURN_IF_ERROR(
        products->Run(product, {.a = a.data(), .b = b.data(), .bias = bias.data(), .c = c.data(), .workspace = room})
            .status());
    return stream->Synchronize();
  }

  FakeCuda& fake;
  std::vector<float> a{1, 2, 3, 4}, b{10, 1, 100, 1000}, bias{0.5, -5000}, c{0, 0, 0, 0};
  char bytes[64] = {};
  void* room = bytes;
  // This member comes after the memory, so it ends first: what it was given last may not have run yet.
  std::unique_ptr<cuda::CudaStream> stream;
};

constexpr cuda::CublasMatMul kProduct = {.m = 2, .n = 2, .k = 2, .bias = true, .relu = true, .workspace_bytes = 64};

TEST(CublasMatMul, MultipliesMatricesThatLieByRows) {
  FakeCuda fake({.any_address = true});
  Products products(fake);
  ASSERT_TRUE(products.Run(kProduct).ok());
  EXPECT_THAT(products.c, ElementsAre(210.5, 0, 430.5, 0));
}

TEST(CublasMatMul, SumsAFactorInTheSameSweepWhereTheLibraryDoes) {
  constexpr cuda::CublasMatMul kWithSums = {
      .m = 2, .n = 2, .k = 2, .transpose_a = true, .sums_a = true, .workspace_bytes = 64};
  for (const FakeLibraries libraries : {FakeLibraries::kServe, FakeLibraries::kServeUnfused}) {
    FakeCuda fake({.any_address = true, .libraries = libraries});
    Products products(fake);
    std::vector<float> sums(2);
    cuda::CublasMatMuls* const matmuls = cuda::LibrariesOf(*products.stream).matmuls().value();
    const bool serves = libraries == FakeLibraries::kServe;
    EXPECT_EQ(matmuls
                  ->Run(kWithSums, {.a = products.a.data(),
                                    .b = products.b.data(),
                                    .c = products.c.data(),
                                    .sums = sums.data(),
                                    .workspace = products.room})
                  .value(),
              serves);
    ASSERT_TRUE(products.stream->Synchronize().ok());
    EXPECT_THAT(products.c, ElementsAre(310, 3001, 420, 4002));
    EXPECT_THAT(sums, ElementsAre(serves ? 4 : 0, serves ? 6 : 0));
  }
}

// What is before gelu is in c either way.
TEST(CublasMatMul, ComputesGeluInTheSameSweepWhereTheLibraryDoes) {
  constexpr cuda::CublasMatMul kWithGelu = {.m = 1, .n = 8, .k = 1, .bias = true, .gelu = true, .workspace_bytes = 64};
  for (const FakeLibraries libraries : {FakeLibraries::kServe, FakeLibraries::kServeUnfused}) {
    FakeCuda fake({.any_address = true, .libraries = libraries});
    Products products(fake);
    alignas(16) float a[1] = {2}, b[8] = {0, 50, -50, 1, 1, 1, 1, 1}, bias[8] = {0, 1, 1, 0, 0, 0, 0, 0};
    alignas(16) float c[8] = {}, gelu[8] = {};
    cuda::CublasMatMuls* const matmuls = cuda::LibrariesOf(*products.stream).matmuls().value();
    const bool serves = libraries == FakeLibraries::kServe;
    EXPECT_EQ(matmuls->Run(kWithGelu, {.a = a, .b = b, .bias = bias, .c = c, .gelu = gelu, .workspace = products.room})
                  .value(),
              serves);
    ASSERT_TRUE(products.stream->Synchronize().ok());
    EXPECT_THAT(c, ElementsAre(0, 101, -99, 2, 2, 2, 2, 2));
    EXPECT_EQ(gelu[1], serves ? 101 : 0);
    EXPECT_NEAR(gelu[3], serves ? 1.9546 : 0, 1e-4);
  }
}

// Rows of bigger matrices, twice over, and a sum that goes on.
TEST(CublasMatMul, ReadsAndAddsToMatricesThatLieApart) {
  FakeCuda fake({.any_address = true});
  Products products(fake);
  alignas(16) float a[16] = {1, 2, 9, 9, 3, 4, 9, 9}, b[16] = {10, 1, 9, 9, 100, 1000, 9, 9}, c[16] = {};
  const cuda::CublasMatMul product = {.m = 2,
                                      .n = 2,
                                      .k = 2,
                                      .count = 2,
                                      .a_step = 8,
                                      .b_step = 8,
                                      .a_row = 4,
                                      .b_row = 4,
                                      .c_row = 3,
                                      .c_step = 6,
                                      .alignment = 4};
  std::copy(a, a + 8, a + 8);
  std::copy(b, b + 8, b + 8);
  a[8] = 0;
  cuda::CublasMatMuls* const matmuls = cuda::LibrariesOf(*products.stream).matmuls().value();
  for (const bool accumulates : {false, true}) {
    cuda::CublasMatMul one = product;
    one.accumulates = accumulates;
    ASSERT_TRUE(matmuls->Run(one, {.a = a, .b = b, .c = c + 1}).ok());
    ASSERT_TRUE(products.stream->Synchronize().ok());
    const float times = accumulates ? 2 : 1;
    EXPECT_THAT(std::vector<float>(c, c + 12), ElementsAre(0, times * 210, times * 2001, 0, times * 430, times * 4003,
                                                           0, times * 200, times * 2000, 0, times * 430, times * 4003));
  }
  // It begins elsewhere than it was said to.
  cuda::CublasMatMul aligned = product;
  aligned.alignment = 16;
  EXPECT_EQ(matmuls->Run(aligned, {.a = a, .b = b, .c = c + 1}).status().code(), absl::StatusCode::kUnimplemented);
}

TEST(CublasMatMul, ChoosesOnceAndMakesOneHandle) {
  FakeCuda fake({.any_address = true});
  Products products(fake);
  fake.ClearCalls();
  ASSERT_TRUE(products.Run(kProduct).ok());
  EXPECT_THAT(fake.calls(), AllOf(Contains("cublasLtCreate"), Contains("cublasLtMatmulAlgoGetHeuristic")));
  for (int i = 0; i < 2; ++i) {
    fake.ClearCalls();
    ASSERT_TRUE(products.Run(kProduct).ok());
    EXPECT_THAT(fake.calls(), AllOf(Contains("cublasLtMatmul"), Not(Contains("cublasLtCreate")),
                                    Not(Contains("cublasLtMatmulPreferenceInit_internal")),
                                    Not(Contains("cublasLtMatmulAlgoGetHeuristic"))));
  }
  cuda::CublasMatMul other = kProduct;
  other.relu = false;
  ASSERT_TRUE(products.Run(other).ok());
  EXPECT_EQ(fake.Count("cublasLtMatmulAlgoGetHeuristic"), 1);
  EXPECT_EQ(fake.Count("cublasLtCreate"), 0);
}

TEST(CublasMatMul, TakesTheAlgorithmOfTheRankThatIsWantedOrTheLast) {
  FakeCuda fake({.any_address = true});
  Products products(fake);
  fake.ClearCalls();
  for (const int rank : {1, 3, 9, 1}) {
    cuda::CublasMatMul product = kProduct;
    product.rank = rank;
    ASSERT_TRUE(products.Run(product).ok());
    EXPECT_THAT(products.c, ElementsAre(210.5, 0, 430.5, 0));
  }
  EXPECT_THAT(fake.algorithms(), ElementsAre(0, 2, 2, 0));
}

TEST(CublasMatMul, TakesTheFirstAlgorithmThatServesAndKeepsIt) {
  FakeCuda fake({.any_address = true, .libraries = FakeLibraries::kServeOthers});
  Products products(fake);
  fake.ClearCalls();
  for (int i = 0; i < 2; ++i) {
    ASSERT_TRUE(products.Run(kProduct).ok());
    EXPECT_THAT(products.c, ElementsAre(210.5, 0, 430.5, 0));
    cuda::StreamLibraries& libraries = cuda::LibrariesOf(*products.stream);
    const std::string* const refused = libraries.TakeRefusedAlgorithm();
    ASSERT_NE(refused, nullptr) << "whoever runs the product is told";
    EXPECT_THAT(*refused, HasSubstr("cublasLtMatmul failed"));
    EXPECT_EQ(libraries.TakeRefusedAlgorithm(), nullptr) << "once";
  }
  EXPECT_THAT(fake.algorithms(), ElementsAre(1, 1));
  EXPECT_EQ(fake.Count("cublasLtMatmul"), 3) << "the first one is tried once";
}

TEST(CublasMatMul, WhatItTakesForAWrongDescriptionIsRefusedAndSaid) {
  FakeCuda fake({.any_address = true});
  Products products(fake);
  products.room = nullptr;
  const absl::Status status = products.Run(kProduct);
  EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(std::string(status.message()), AllOf(HasSubstr("a product of [2, 2] and [2, 2] in float32"),
                                                   HasSubstr("cublasLtMatmul failed"), HasSubstr("--plain-kernels")));
}

TEST(CublasMatMul, AsksNoMoreForWhatIsRefused) {
  FakeCuda fake({.any_address = true, .libraries = FakeLibraries::kRefuse});
  Products products(fake);
  EXPECT_EQ(products.Run(kProduct).code(), absl::StatusCode::kUnimplemented);
  fake.ClearCalls();
  EXPECT_EQ(products.Run(kProduct).code(), absl::StatusCode::kUnimplemented);
  EXPECT_EQ(fake.Count("cublasLtMatmulAlgoGetHeuristic"), 0);
}

TEST(CublasMatMul, OfALibraryThatIsTooNewIsNotThere) {
  FakeCuda fake({.any_address = true, .libraries = FakeLibraries::kNewer});
  Products products(fake);
  EXPECT_EQ(products.Run(kProduct).code(), absl::StatusCode::kUnimplemented);
  fake.ClearCalls();
  EXPECT_EQ(products.Run(kProduct).code(), absl::StatusCode::kUnimplemented);
  EXPECT_EQ(fake.Count("cublasLtMatmulDescInit_internal"), 0);
}

TEST(CublasMatMul, OfALibraryThatIsMissingIsNotThereAndWhyIsSaid) {
  FakeCuda fake({.libraries = FakeLibraries::kMissing});
  Products products(fake);
  const absl::Status status = products.Run(kProduct);
  EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented);
  EXPECT_EQ(status.message(), "not there");
}

// Whichever call fails, the error names it, and the next try succeeds.
TEST(CublasMatMul, EveryCallThatFailsIsAnErrorAndLeavesNothingBehind) {
  for (int64_t n = 0;; ++n) {
    FakeCuda fake({.any_address = true});
    {
      Products products(fake);
      fake.ClearCalls();
      fake.FailCall(n);
      const absl::Status status = products.Run(kProduct);
      if (!fake.has_failed()) {
        EXPECT_GT(n, 15);
        return;
      }
      EXPECT_THAT(std::string(status.message()), HasSubstr(fake.calls().back()));
      EXPECT_TRUE(products.Run(kProduct).ok()) << fake.calls()[static_cast<size_t>(n)];
      EXPECT_THAT(products.c, ElementsAre(210.5, 0, 430.5, 0));
    }
    EXPECT_EQ(fake.Leaks(), "") << n;
  }
}

TEST(CublasMatMul, AnErrorSaysWhatWasMultipliedAndWhatToDo) {
  FakeCuda fake({.any_address = true});
  Products products(fake);
  fake.FailCall(0, "cublasLtMatmul");
  EXPECT_THAT(std::string(products.Run(kProduct).message()),
              AllOf(HasSubstr("asking for a product of [2, 2] and [2, 2] in float32: cublasLtMatmul failed"),
                    HasSubstr("--plain-kernels")));
}

}  // namespace
}  // namespace snug::core
